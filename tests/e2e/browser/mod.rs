//! The browser's side in a real Firefox: the page of `infra/web` as `redial demo --browser` serves it, its service worker, and a push
//! server of our own between it and Redial. [`stand_in`] has its own API, which fails in every way; in [`real`] everything is
//! there: the deployed template, its API, queues and functions.
//!
//! One Firefox for the whole way of a user, because a start takes some seconds. Without Firefox a test says so and passes,
//! except in CI.

mod api;
mod open_page;
mod pages;
mod real;
mod stand_in;
