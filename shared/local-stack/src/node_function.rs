//! A function in Node.js whose code is inline in a template, as processes of this machine behind a URL of its own.
//!
//! Where functions run on this machine, no Lambda runs one that a command deploys for itself. The template says what the function is;
//! Lambda's runtime for it is a short program of ours (`node_function.js`), and Node.js has to be installed.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use redial_console::template;
use redial_function_host::{
    function::{Definition, Function},
    function_url::{self, Auth},
    runtime_api::Confinement,
};
use redial_receivers::serve::Port;
use tokio::task::JoinHandle;

use crate::local::LocalError;

const RUNTIME: &str = include_str!("node_function.js");
/// `node:` modules, and the primitives of the receiver.
const OLDEST_NODE: u32 = 18;

/// It runs until it is dropped; its processes end with it.
#[derive(Debug)]
pub struct NodeFunction {
    server: JoinHandle<()>,
    /// Of the code.
    _folder: tempfile::TempDir,
    /// `http://127.0.0.1:PORT`
    pub url: String,
}

impl NodeFunction {
    /// Why it could not run here: there is no Node.js, or only one that is too old.
    pub fn hindrance() -> Option<String> {
        let version = Command::new("node").arg("--version").stdin(Stdio::null()).output();
        let version = match version {
            Ok(version) if version.status.success() => String::from_utf8_lossy(&version.stdout).into_owned(),
            Ok(version) => return Some(format!("node --version ended with {}", version.status)),
            Err(error) => return Some(format!("node was not found on the PATH ({error})")),
        };
        let version = version.trim();
        let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
        let is_new = major.is_some_and(|major: u32| major >= OLDEST_NODE);
        (!is_new).then(|| format!("node is {version}, and {OLDEST_NODE} or newer is needed"))
    }

    /// Starts the function of this name in a template, with values for the parameters that its variables refer to. Its URL is at this
    /// port of 127.0.0.1 (0 is a free one), and also answers callers that name `authority`, such as those of a TLS server in front.
    pub fn start(
        template: &str,
        function: &str,
        parameters: &BTreeMap<String, String>,
        port: u16,
        authority: Option<String>,
    ) -> Result<Self, LocalError> {
        let wrong = |what: &str| LocalError::Template(format!("the function {function}: {what}"));
        let document = template::read(template).map_err(|error| wrong(&error.to_string()))?;
        let properties = &document["Resources"][function]["Properties"];
        let code = properties["Code"]["ZipFile"].as_str().ok_or_else(|| wrong("no inline code"))?;
        let timeout = properties["Timeout"].as_u64().ok_or_else(|| wrong("no timeout"))?;
        let mut environment = BTreeMap::from([(
            "PATH".to_owned(),
            std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned()),
        )]);
        for (name, value) in properties["Environment"]["Variables"].as_object().into_iter().flatten() {
            let parameter = value["Ref"].as_str().and_then(|parameter| parameters.get(parameter));
            let value = value.as_str().or(parameter.map(String::as_str));
            environment.insert(
                name.clone(),
                value.ok_or_else(|| wrong(&format!("{name} has no value")))?.to_owned(),
            );
        }

        let folder = tempfile::tempdir().map_err(LocalError::file(Path::new("a temporary folder")))?;
        let bootstrap = folder.path().join("bootstrap");
        let write = |path: &Path, text: &str| fs::write(path, text).map_err(LocalError::file(path));
        write(&bootstrap, RUNTIME)?;
        write(&folder.path().join("index.js"), code)?;
        fs::set_permissions(&bootstrap, fs::Permissions::from_mode(0o700))
            .map_err(LocalError::file(&bootstrap))?;
        let function = Arc::new(Function::new(Definition {
            bootstrap,
            environment,
            timeout: Duration::from_secs(timeout),
            reserved_concurrency: None,
            confinement: Confinement::default(),
        }));
        let address = format!("127.0.0.1:{port}");
        let port = Port::take(port).map_err(LocalError::file(Path::new(&address)))?;
        let url = port.origin("127.0.0.1");
        let server = async move {
            let _ended =
                function_url::run(port, Auth::Open, authority, function, Arc::new(|_: &str| ())).await;
        };
        Ok(Self { server: tokio::spawn(server), _folder: folder, url })
    }
}

impl Drop for NodeFunction {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::http_client;

    const TEMPLATE: &str = r#"
Resources:
  Echo:
    Type: AWS::Lambda::Function
    Properties:
      Timeout: 5
      Environment: { Variables: { GREETING: !Ref Greeting } }
      Code:
        ZipFile: |
          exports.handler = async ({ rawPath, body }) => {
            if (rawPath === "/fail") throw new Error("asked to");
            return { statusCode: 201, body: `${process.env.GREETING} ${rawPath} ${body}` };
          };
"#;

    #[tokio::test]
    async fn inline_code_answers_at_its_url_and_in_the_name_of_a_front() {
        if let Some(hindrance) = NodeFunction::hindrance() {
            assert!(std::env::var_os("CI").is_none(), "{hindrance}: CI must run it");
            return;
        }
        let parameters = BTreeMap::from([("Greeting".to_owned(), "hello".to_owned())]);
        let front = "localhost:8443".to_owned();
        let function = NodeFunction::start(TEMPLATE, "Echo", &parameters, 0, Some(front));
        let function = function.expect("a free port");
        let http = http_client().expect("a client");
        let post = async |path: &str, host: Option<&str>| {
            let request = http.post(format!("{}{path}", function.url)).body("world");
            let request = host.into_iter().fold(request, |request, host| request.header("host", host));
            let answer = request.send().await.expect("it answers");
            (answer.status().as_u16(), answer.text().await.expect("text"))
        };
        assert_eq!(post("/a", None).await, (201, "hello /a world".to_owned()));
        assert_eq!(post("/b", Some("localhost:8443")).await.0, 201);
        assert_eq!(post("/c", Some("evil.example")).await.0, 403);
        assert_eq!(post("/fail", None).await.0, 502);
        assert_eq!(post("/d", None).await.0, 201, "it goes on after a failure");
    }

    #[test]
    fn a_variable_without_a_value_is_refused() {
        let error =
            NodeFunction::start(TEMPLATE, "Echo", &BTreeMap::new(), 0, None).expect_err("no greeting");
        assert!(error.to_string().contains("GREETING has no value"), "{error}");
    }
}
