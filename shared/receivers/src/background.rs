//! A thread with a runtime of its own for each server of the kit.
//!
//! The servers must go on while a test's own runtime is busy, paused or gone, and a test with a paused
//! clock must not make a push service's delays disappear. Dropping the handle asks the thread to stop,
//! waits for it, and with that closes the server's socket and connections.

use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

pub struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts a thread and runs on it what `serve` returns, until that ends or the handle is dropped. `serve` is called within
    /// the thread's runtime.
    pub fn start<F, Fut>(name: &str, serve: F) -> io::Result<Self>
    where
        F: FnOnce() -> io::Result<Fut> + Send + 'static,
        Fut: Future<Output = ()>,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let (report, started) = mpsc::channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let serving = runtime.and_then(|runtime| {
                let serving = runtime.block_on(async { serve() })?;
                Ok((runtime, serving))
            });
            // Who starts this waits for exactly this report.
            let _ = report.send(serving.as_ref().map(|_| ()).map_err(|error| io::Error::from(error.kind())));
            let Ok((runtime, serving)) = serving else { return };
            runtime.block_on(async {
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            });
        })?;
        started.recv().map_err(io::Error::other)??;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Waits until what runs has ended by itself, without asking it to.
    pub fn finish(mut self) {
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed by its thread; a drop must not add a second one.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.join();
    }
}
