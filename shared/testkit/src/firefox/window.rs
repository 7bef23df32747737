//! A page in a Firefox, driven from outside over Marionette: for pages whose policy or server lets no script of a test in.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::desktop::{Desktop, DesktopError};

/// Tab, as WebDriver writes it.
pub const TAB: &str = "\u{E004}";
pub const ENTER: &str = "\u{E007}";

pub struct Window(Desktop);

impl Window {
    pub(super) async fn of(desktop: Desktop) -> Result<Self, DesktopError> {
        let mut window = Self(desktop);
        window.context("content").await?;
        Ok(window)
    }

    /// Loads a page, and waits until it is loaded.
    pub async fn open(&mut self, address: &str) -> Result<(), DesktopError> {
        self.0.command("WebDriver:Navigate", json!({"url": address})).await.map(drop)
    }

    /// Runs a function's body in the page, and returns what it returns; a promise is waited for.
    pub async fn script(&mut self, body: &str, arguments: Value) -> Result<Value, DesktopError> {
        let script = json!({"script": body, "args": arguments, "scriptTimeout": 60_000});
        let mut returned = self.0.command("WebDriver:ExecuteScript", script).await?;
        Ok(returned["value"].take())
    }

    /// Presses a key, as on a keyboard.
    pub async fn press(&mut self, key: &str) -> Result<(), DesktopError> {
        let strokes = ["keyDown", "keyUp"].map(|stroke| json!({"type": stroke, "value": key}));
        let keyboard = json!([{"type": "key", "id": "keyboard", "actions": strokes}]);
        self.0.command("WebDriver:PerformActions", json!({"actions": keyboard})).await.map(drop)
    }

    /// Makes the page so wide, as on a screen of that width; Firefox's own windows have a least width.
    pub async fn width(&mut self, pixels: u32) -> Result<(), DesktopError> {
        let size = json!({"width": pixels.max(500) + 40, "height": 1_000});
        self.0.command("WebDriver:SetWindowRect", size).await?;
        let body = "const style = gBrowser.selectedBrowser.style; style.width = style.maxWidth = style.minWidth = `${arguments[0]}px`;";
        self.in_chrome(body, json!([pixels])).await
    }

    /// What the page reads as the user's preferred colour scheme.
    pub async fn dark(&mut self, is_dark: bool) -> Result<(), DesktopError> {
        let body =
            "Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', arguments[0]);";
        self.in_chrome(body, json!([i32::from(!is_dark)])).await
    }

    /// The whole page as a PNG.
    pub async fn screenshot(&mut self) -> Result<Vec<u8>, DesktopError> {
        let taken = self.0.command("WebDriver:TakeScreenshot", json!({"full": true, "hash": false})).await?;
        let text = taken["value"].as_str().unwrap_or_default();
        STANDARD.decode(text).map_err(|_| DesktopError::Refused(taken))
    }

    async fn in_chrome(&mut self, body: &str, arguments: Value) -> Result<(), DesktopError> {
        self.context("chrome").await?;
        let script = json!({"script": body, "args": arguments});
        let done = self.0.command("WebDriver:ExecuteScript", script).await;
        self.context("content").await?;
        done.map(drop)
    }

    async fn context(&mut self, context: &str) -> Result<(), DesktopError> {
        self.0.command("Marionette:SetContext", json!({"value": context})).await.map(drop)
    }
}
