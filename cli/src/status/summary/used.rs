//! What the stack used, as AWS's own metrics count it.

use redial_core::time::Timestamp;

use crate::{
    aws_error::AwsError,
    cloudwatch::{Points, Query},
    cost::{Counts, gb_seconds},
    stack::{Configuration, Target},
    tail::group,
};

/// A function whose use is counted.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Function {
    deployed_as: String,
    /// `None` where its configuration may not be read.
    memory_mb: Option<f64>,
    log_group: Option<String>,
}

/// Dispatch first.
pub(super) fn functions(
    target: &Target,
    configurations: &[Result<Configuration, AwsError>; 3],
) -> Vec<Function> {
    let function = |((_, deployed_as), configuration): ((_, &str), &Result<Configuration, _>)| {
        let configuration = configuration.as_ref().ok();
        Function {
            deployed_as: deployed_as.to_owned(),
            memory_mb: configuration.and_then(Configuration::memory_size).map(f64::from),
            log_group: configuration.map(|it| group(it, deployed_as)),
        }
    };
    target.functions().into_iter().zip(configurations).map(function).collect()
}

/// The log groups, each once.
fn log_groups(functions: &[Function]) -> Vec<&str> {
    let mut groups: Vec<&str> = functions.iter().filter_map(|it| it.log_group.as_deref()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// AWS's metrics: invocations and durations of each function, then read units of each table and bytes of each log group.
pub(super) fn queries(target: &Target, functions: &[Function]) -> Vec<Query> {
    let sum = |namespace, metric, dimension| Query {
        namespace,
        metric,
        dimensions: vec![dimension],
        statistic: "Sum",
    };
    let of_functions = |metric| {
        functions.iter().map(move |it| sum("AWS/Lambda", metric, ("FunctionName", it.deployed_as.clone())))
    };
    let reads_of = |it: &str| sum("AWS/DynamoDB", "ConsumedReadCapacityUnits", ("TableName", it.to_owned()));
    let reads = target.tables.all().map(reads_of);
    let logs = log_groups(functions);
    let logs = logs.into_iter().map(|it| sum("AWS/Logs", "IncomingBytes", ("LogGroupName", it.to_owned())));
    of_functions("Invocations").chain(of_functions("Duration")).chain(reads).chain(logs).collect()
}

/// What these metrics count since a time; the write units are of the flow.
pub(super) fn of(points: &[Points], functions: &[Function], since: Timestamp) -> Counts {
    let sums: Vec<Option<f64>> = points.iter().map(|points| points.sum_since(since)).collect();
    let mut rest = &sums[..];
    let mut take = |n: usize| {
        let (these, others) = rest.split_at(n.min(rest.len()));
        rest = others;
        these
    };
    let (invocations, durations) = (take(functions.len()), take(functions.len()));
    let logs = log_groups(functions).len();
    let (reads, logs) = (take(sums.len().saturating_sub(2 * functions.len() + logs)), take(logs));
    // An unknown memory makes the whole unknown.
    let durations = durations.iter().zip(functions).filter_map(|(duration, it)| Some((((*duration)?), it)));
    let gb_seconds: Option<Vec<f64>> =
        durations.map(|(duration, it)| Some(gb_seconds(duration, it.memory_mb?))).collect();
    Counts {
        write_units: None,
        read_units: sum(reads),
        invocations: sum(invocations),
        gb_seconds: gb_seconds.filter(|all| !all.is_empty()).map(|all| all.iter().sum()),
        sqs_requests: invocations.first().copied().flatten().map(Counts::sqs_requests_of),
        log_bytes: sum(logs),
    }
}

/// `None` if none of them was counted.
fn sum(counts: &[Option<f64>]) -> Option<f64> {
    let counted: Vec<f64> = counts.iter().copied().flatten().collect();
    (!counted.is_empty()).then(|| counted.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(memory_mb: Option<f64>, log_group: Option<&str>) -> Function {
        let deployed_as = "shop-function".to_owned();
        Function { deployed_as, memory_mb, log_group: log_group.map(str::to_owned) }
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_795_255_200 + secs)
    }

    /// A value of each of these metrics, as far as there is one.
    fn points(counts: &[Option<f64>]) -> Vec<Points> {
        let point =
            |count: &Option<f64>| count.map_or_else(Points::default, |it| Points::of(&[(at(60), it)]));
        counts.iter().map(point).collect()
    }

    /// Dispatch and cleanup share a log group.
    fn three() -> Vec<Function> {
        [("a", 256.0), ("a", 256.0), ("b", 512.0)].map(|(group, mb)| function(Some(mb), Some(group))).into()
    }

    #[test]
    fn what_the_metrics_count_is_summed_by_what_is_paid_for() {
        let invocations = [Some(10.0), Some(2.0), None];
        let durations = [Some(3_000.0), Some(1_000.0), Some(500.0)];
        let reads = [Some(7.0), None, None, None, Some(0.5), Some(1.0)];
        let logs = [Some(2_000.0), Some(500.0)];
        let all = [&invocations[..], &durations, &reads, &logs].concat();
        let expected = Counts {
            write_units: None,
            read_units: Some(8.5),
            invocations: Some(12.0),
            gb_seconds: Some(1.25),
            sqs_requests: Some(30.0),
            log_bytes: Some(2_500.0),
        };
        assert_eq!(of(&points(&all), &three(), at(0)), expected);
        assert_eq!(of(&points(&all), &three(), at(120)), Counts::default(), "it is of another time");
    }

    #[test]
    fn what_nothing_counts_is_not_zero() {
        let none = [None; 14];
        assert_eq!(of(&points(&none), &three(), at(0)), Counts::default());
        // Without the permission to read configurations.
        let unread = vec![function(None, None); 3];
        let mut counted = [Some(1.0); 12];
        assert_eq!(log_groups(&unread), [""; 0]);
        let counts = of(&points(&counted), &unread, at(0));
        assert_eq!((counts.invocations, counts.gb_seconds, counts.log_bytes), (Some(3.0), None, None));
        counted[0] = None;
        assert_eq!(of(&points(&counted), &unread, at(0)).sqs_requests, None);
    }
}
