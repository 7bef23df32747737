//! The hand of a user on a notification: over Marionette, the remote protocol that is part of Firefox.
//!
//! Firefox without a desktop draws each notification as a small window of its own. They are found among its windows, and
//! clicked as a mouse would: so what follows is the browser's own way to the service worker.
//!
//! A message of the protocol is its length in decimal digits, a colon and that many bytes of JSON: `[0, id, command,
//! parameters]` one way, and `[1, id, error, result]` the other.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The file in the profile that has the port, once there is one.
const PORT_FILE: &str = "MarionetteActivePort";
/// How long Firefox may take to come up, and to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks for something that is not announced: a file, or a window.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// More than any answer to what is asked here: the longest is the picture of a page.
const LONGEST_MESSAGE: usize = 64 << 20;

/// Finds the notification with this title, and does something with its window.
const WITH_ALERT: &str = r#"
    for (const alert of Services.wm.getEnumerator("alert:alert")) {
        const title = alert.document.getElementById("alertTitleLabel");
        if (title && (title.value || title.textContent) === arguments[0] && !alert.redialDone) {
            alert.redialDone = true;
            if (arguments[1] === "click") {
                alert.onAlertClick();
            } else {
                alert.onAlertClose();
            }
            return true;
        }
    }
    return false;
"#;

/// Why Firefox did not carry a command out.
#[derive(Debug, Error)]
pub enum DesktopError {
    #[error("the connection to Firefox")]
    Io(#[from] io::Error),
    /// No answer, or no such notification, in half a minute.
    #[error("nothing in {PATIENCE:?}: {0}")]
    Late(&'static str),
    #[error("Firefox refused: {0}")]
    Refused(Value),
}

pub struct Desktop {
    stream: TcpStream,
    sent: u64,
}

impl Desktop {
    pub(super) async fn connect(profile: &Path) -> Result<Self, DesktopError> {
        let greeting = async {
            let port = loop {
                let text = tokio::fs::read_to_string(profile.join(PORT_FILE)).await.unwrap_or_default();
                if let Ok(port) = text.trim().parse::<u16>() {
                    break port;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            };
            let mut desktop = Self { stream: TcpStream::connect(("127.0.0.1", port)).await?, sent: 0 };
            desktop.read().await?;
            desktop.command("WebDriver:NewSession", json!({})).await?;
            desktop.command("Marionette:SetContext", json!({"value": "chrome"})).await?;
            Ok(desktop)
        };
        tokio::time::timeout(PATIENCE, greeting).await.map_err(|_| DesktopError::Late("no connection"))?
    }

    /// Waits for the notification with this title, and clicks on it.
    pub async fn click_notification(&mut self, title: &str) -> Result<(), DesktopError> {
        self.with_notification(title, "click").await
    }

    /// Waits for the notification with this title, and closes it.
    pub async fn close_notification(&mut self, title: &str) -> Result<(), DesktopError> {
        self.with_notification(title, "close").await
    }

    async fn with_notification(&mut self, title: &str, action: &str) -> Result<(), DesktopError> {
        let look = async {
            loop {
                let script = json!({"script": WITH_ALERT, "args": [title, action]});
                if self.command("WebDriver:ExecuteScript", script).await?["value"] == true {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.map_err(|_| DesktopError::Late("no such notification"))?
    }

    pub(super) async fn command(&mut self, name: &str, parameters: Value) -> Result<Value, DesktopError> {
        self.sent += 1;
        let text = json!([0, self.sent, name, parameters]).to_string();
        self.stream.write_all(format!("{}:{text}", text.len()).as_bytes()).await?;
        let mut answer = self.read().await?;
        match answer.get(2) {
            Some(Value::Null) => Ok(answer[3].take()),
            Some(error) => Err(DesktopError::Refused(error.clone())),
            None => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
        }
    }

    async fn read(&mut self) -> io::Result<Value> {
        let mut length = 0_usize;
        loop {
            match self.stream.read_u8().await? {
                b':' => break,
                digit @ b'0'..=b'9' if length < LONGEST_MESSAGE => {
                    length = length * 10 + usize::from(digit - b'0');
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        let mut message = vec![0; length];
        self.stream.read_exact(&mut message).await?;
        serde_json::from_slice(&message).map_err(io::Error::other)
    }
}
