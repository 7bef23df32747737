//! The way of a test's orders into the page and its service worker: the demo's own server of `infra/web`, with a script more in each.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Response, StatusCode, body::Bytes};
use redial::browser_demo::{Answers, Asked, BackOffice, Site, answer, json as json_answer};
use redial_tests::json::with_fields;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};

/// How long an order waits for the page, which may be started or loaded in the meantime.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long the page's question for an order is held.
const HELD: Duration = Duration::from_secs(5);

const DRIVER: &str = include_str!("driver.js");
/// What the service worker has more than a user's.
const WORKER: &str = include_str!("worker.js");
/// A site's own worker that does not import `redial-sw.js` yet.
pub(super) const OLD_WORKER: &str = "/test/old-sw.js";
/// What the page has more than a user's.
const DRIVEN: &str = "<script type=\"module\" src=\"/test/driver.js\"></script></body>";

pub(super) struct Pages<B> {
    site: Site<B>,
    give: mpsc::UnboundedSender<Value>,
    orders: AsyncMutex<mpsc::UnboundedReceiver<Value>>,
    /// Who waits for the report of an order, by its number.
    waiting: Mutex<Vec<Option<oneshot::Sender<Value>>>>,
    /// Whether the demo's own server has ended.
    ended: AtomicBool,
}

impl<B: BackOffice> Pages<B> {
    pub(super) fn new(site: Site<B>) -> Self {
        let (give, orders) = mpsc::unbounded_channel();
        Self {
            site,
            give,
            orders: AsyncMutex::new(orders),
            waiting: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }

    pub(super) fn back_office(&self) -> &B {
        self.site.back_office()
    }

    /// From now on the demo's own server answers nothing, or everything again.
    pub(super) fn end(&self, ended: bool) {
        self.ended.store(ended, Ordering::Relaxed);
    }

    /// Lets the page do something (`driver.js` has the list), and returns what came of it.
    pub(super) async fn order(&self, order: &str, more: Value) -> Value {
        let (sender, report) = oneshot::channel();
        let number = {
            let mut waiting = self.waiting.lock().expect("not poisoned");
            waiting.push(Some(sender));
            waiting.len() - 1
        };
        let order = with_fields(more, &json!({"number": number, "order": order}));
        self.give.send(order.clone()).expect("the receiver is kept beside it");
        let report = tokio::time::timeout(PATIENCE, report).await;
        let mut report =
            report.unwrap_or_else(|_| panic!("the page does not answer {order}")).expect("it reports");
        assert!(report.get("error").is_none(), "{order}: {}", report["error"]);
        report["ok"].take()
    }

    async fn next_order(&self) -> Response<Full<Bytes>> {
        let mut orders = self.orders.lock().await;
        match tokio::time::timeout(HELD, orders.recv()).await {
            Ok(Some(order)) => json_answer(StatusCode::OK, &order),
            Ok(None) | Err(_) => json_answer(StatusCode::ACCEPTED, &json!(null)),
        }
    }

    async fn changed(
        file: Response<Full<Bytes>>,
        change: impl Fn(String) -> String,
    ) -> Response<Full<Bytes>> {
        let (head, body) = file.into_parts();
        let Ok(whole) = body.collect().await;
        let text = String::from_utf8(whole.to_bytes().into()).expect("a file is text");
        Response::from_parts(head, Full::new(change(text).into()))
    }
}

impl<B: BackOffice> Answers for Pages<B> {
    async fn answer(&self, asked: Asked) -> Option<Response<Full<Bytes>>> {
        Some(match (&asked.method, asked.path.as_str()) {
            (&Method::GET, "/test/driver.js") => {
                answer(StatusCode::OK, "text/javascript; charset=utf-8", DRIVER)
            }
            (&Method::GET, OLD_WORKER) => {
                answer(StatusCode::OK, "text/javascript; charset=utf-8", "// It knows no messages.")
            }
            (&Method::GET, "/test/order") => self.next_order().await,
            (&Method::POST, "/test/report") => {
                let report = asked.json();
                let number =
                    report["number"].as_u64().and_then(|it| usize::try_from(it).ok()).expect("a number");
                let waiting = self.waiting.lock().expect("not poisoned")[number].take();
                // A test that has ended its wait has panicked.
                let _ended = waiting.map(|sender| sender.send(report));
                json_answer(StatusCode::OK, &json!(null))
            }
            _ if self.ended.load(Ordering::Relaxed) => return None,
            (&Method::GET, "/") => {
                let page = self.site.answer(asked).await?;
                Self::changed(page, |text| text.replace("</body>", DRIVEN)).await
            }
            (&Method::GET, "/redial-sw.js") => {
                Self::changed(self.site.answer(asked).await?, |text| text + WORKER).await
            }
            _ => self.site.answer(asked).await?,
        })
    }
}
