//! Whether the stack has everything that the template makes for its parameters.

use super::release::Release;
use crate::doctor::{Report, Stack};

/// Resources that an emulator leaves out or has elsewhere; each is unchecked there.
const NOT_EMULATED: &str = "this emulator's CloudFormation does not make it";

pub(super) fn check(stack: &Stack, release: &Release, report: &mut Report) {
    let (there, missing): (Vec<_>, Vec<_>) = release.parts().partition(|part| part.deployed_as.is_some());
    for part in &missing {
        if stack.target.is_emulated() {
            report.unchecked(part.name, NOT_EMULATED);
        } else {
            report.fault(
                format!("the stack has no {} ({})", part.name, part.kind),
                "deploy this release's template; or verify with the release that the stack was deployed from",
            );
        }
    }
    report.well(format!("the stack has all {} resources of this release's template", there.len()));
}
