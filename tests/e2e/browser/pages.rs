//! The way of a test's orders into the page: the demo's own server of `infra/web`, with a script more.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Method, Response, StatusCode};
use redial::browser_demo::{Answers, Asked, BackOffice, Site, answer, json as json_answer};
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};

/// How long an order waits for the page, which may be started or loaded in the meantime.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long the page's question for an order is held.
const HELD: Duration = Duration::from_secs(5);

const DRIVER: &str = include_str!("driver.js");
/// What the page has more than a user's.
const DRIVEN: &str = "<script type=\"module\" src=\"/test/driver.js\"></script></body>";

/// The page's server with its orders.
pub(super) struct Pages<B> {
    site: Site<B>,
    give: mpsc::UnboundedSender<Value>,
    orders: AsyncMutex<mpsc::UnboundedReceiver<Value>>,
    given: AtomicU64,
    reports: Mutex<Vec<Value>>,
    reported: watch::Sender<()>,
}

impl<B: BackOffice> Pages<B> {
    pub(super) fn new(site: Site<B>) -> Self {
        let (give, orders) = mpsc::unbounded_channel();
        Self {
            site,
            give,
            orders: AsyncMutex::new(orders),
            given: AtomicU64::new(0),
            reports: Mutex::default(),
            reported: watch::Sender::new(()),
        }
    }

    /// Who sends for the page.
    pub(super) fn back_office(&self) -> &B {
        self.site.back_office()
    }

    /// Lets the page do something (`driver.js` has the list), and returns what came of it.
    pub(super) async fn order(&self, order: &str, mut more: Value) -> Value {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        more["number"] = number.into();
        more["order"] = order.into();
        let mut reported = self.reported.subscribe();
        self.give.send(more.clone()).expect("the receiver is kept beside it");
        let waiting = async {
            loop {
                let reports = self.reports.lock().expect("not poisoned").clone();
                if let Some(report) = reports.into_iter().find(|report| report["number"] == number) {
                    return report;
                }
                reported.changed().await.expect("the sender is kept beside it");
            }
        };
        let mut report = tokio::time::timeout(PATIENCE, waiting).await;
        let report = report.as_mut().unwrap_or_else(|_| panic!("the page does not answer {more}"));
        assert!(report.get("error").is_none(), "{more}: {}", report["error"]);
        report["ok"].take()
    }

    async fn next_order(&self) -> Response<Full<Bytes>> {
        let mut orders = self.orders.lock().await;
        match tokio::time::timeout(HELD, orders.recv()).await {
            Ok(Some(order)) => json_answer(StatusCode::OK, &order),
            Ok(None) | Err(_) => json_answer(StatusCode::ACCEPTED, &json!(null)),
        }
    }

    /// Lets the page load the driver.
    async fn driven(page: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
        let (head, body) = page.into_parts();
        let Ok(whole) = body.collect().await;
        let text = String::from_utf8(whole.to_bytes().into()).expect("a page is text");
        Response::from_parts(head, Full::new(text.replace("</body>", DRIVEN).into()))
    }
}

impl<B: BackOffice> Answers for Pages<B> {
    async fn answer(&self, asked: Asked) -> Option<Response<Full<Bytes>>> {
        Some(match (&asked.method, asked.path.as_str()) {
            (&Method::GET, "/test/driver.js") => {
                answer(StatusCode::OK, "text/javascript; charset=utf-8", DRIVER)
            }
            (&Method::GET, "/test/order") => self.next_order().await,
            (&Method::POST, "/test/report") => {
                self.reports.lock().expect("not poisoned").push(asked.json());
                self.reported.send_replace(());
                json_answer(StatusCode::OK, &json!(null))
            }
            (&Method::GET, "/") => Self::driven(self.site.answer(asked).await?).await,
            _ => self.site.answer(asked).await?,
        })
    }
}
