//! What the HTTP API has answered.

use super::remains::Remains;
use crate::watch::Memo;

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let mut broken = Vec::new();
    for (key, taken) in &memo.api.taken {
        let by_subscription = taken.iter().filter(|(_, by_address)| !by_address);
        // Contents under two keys of hashes cannot be compared.
        // What was cancelled before its message came has no content yet.
        let has_content = memo.cancelled.get(key).is_none_or(|cancelled| cancelled.is_known);
        if by_subscription.count() > 1 && !memo.facts.is_rotated && has_content {
            broken.push(format!("the API took several contents of {key}"));
        }
    }
    for (key, refused) in &memo.api.refused {
        let sent = |content: u32| {
            let sendings = remains.accepted.get(key).into_iter().flatten();
            sendings.filter(|sending| sending.content == content).count() > 0
        };
        for post in memo.posts.get(key).into_iter().flatten() {
            let is_refused = refused.iter().any(|(content, _)| *content == post.content);
            if is_refused && !sent(post.content) {
                broken.push(format!("{key} was posted with a content that the API refused"));
                break;
            }
        }
    }
    broken.into_iter().for_each(|what| memo.violated(what));
}
