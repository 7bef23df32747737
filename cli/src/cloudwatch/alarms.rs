//! `DescribeAlarms`: alarms as they are now.

use aws_config::SdkConfig;
use serde::Deserialize;
use serde_json::json;

use super::call::Caller;
use crate::asked::Trouble;

/// The most alarms of an answer.
const AT_ONCE: usize = 100;

/// An alarm as it is now.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Alarm {
    #[serde(rename = "AlarmName")]
    pub(crate) name: String,
    #[serde(rename = "StateValue", default)]
    pub(crate) state: String,
    #[serde(default)]
    actions_enabled: Option<bool>,
    #[serde(default)]
    alarm_actions: Vec<String>,
}

impl Alarm {
    /// Whether it does anything when it fires.
    pub(crate) fn tells_someone(&self) -> bool {
        self.actions_enabled != Some(false) && !self.alarm_actions.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn of(name: &str, state: &str, action: Option<&str>) -> Self {
        let alarm_actions = action.map(str::to_owned).into_iter().collect();
        Self { name: name.to_owned(), state: state.to_owned(), actions_enabled: Some(true), alarm_actions }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    #[serde(default)]
    metric_alarms: Vec<Alarm>,
    #[serde(default)]
    composite_alarms: Vec<Alarm>,
}

/// The alarms of these names that there are.
pub(crate) async fn alarms(sdk: &SdkConfig, names: &[String]) -> Result<Vec<Alarm>, Trouble> {
    let caller = Caller::new(sdk)?;
    let mut alarms = Vec::new();
    for names in names.chunks(AT_ONCE) {
        let asked = json!({
            "AlarmNames": names,
            "AlarmTypes": ["MetricAlarm", "CompositeAlarm"],
            "MaxRecords": AT_ONCE,
        });
        let described: Described = caller.call("DescribeAlarms", &asked).await?;
        alarms.extend(described.metric_alarms.into_iter().chain(described.composite_alarms));
    }
    Ok(alarms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_without_actions_or_with_them_switched_off_tells_nobody() {
        let alarm = |text: &str| serde_json::from_str::<Alarm>(text).expect("an alarm");
        let told = r#"{"AlarmName": "a", "StateValue": "OK", "ActionsEnabled": true, "AlarmActions": ["arn:topic"]}"#;
        assert!(alarm(told).tells_someone());
        assert!(!alarm(&told.replace("true", "false")).tells_someone());
        assert!(!alarm(r#"{"AlarmName": "a", "StateValue": "OK"}"#).tells_someone());
    }
}
