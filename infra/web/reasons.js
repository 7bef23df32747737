// Why a delivery is in its state: for each reason of Redial, what happened, and what to do next. The page of the demo and the
// console show these instead of the label alone.

const REASONS = {
  malformed: ["The message could not be parsed.", "Correct the field that the dead letter names, and send the message again."],
  id_conflict: ["Another message with the same id was accepted before.", "Give each message an id of its own."],
  subscription_unknown: ["There is no subscription with this id.", "Subscribe first, or check the tenant and the id."],
  subscription_off: ["The subscription was found gone before, or is in quarantine.", "Have the page subscribe again; if its push service was at fault, `redial subscriptions enable`."],
  subscription_expired: ["The browser's subscription has reached its end.", "Have the page subscribe again."],
  subscription_stale: ["Nothing was heard of this subscription for too long.", "Have the page subscribe again: a visit renews it."],
  subscription_suspect: ["Its push service has refused this subscription again and again.", "Have the page subscribe again: a visit renews it."],
  endpoint_replaced: ["A newer subscription has the same endpoint.", "Nothing: the newer subscription gets the messages."],
  endpoint_disabled: ["The webhook's receiver is switched off: it failed for days, or answered 410.", "Enable it once it works again: `redial subscriptions enable`."],
  header_not_permitted: ["The message has a header that its webhook does not permit.", "Permit the header in the subscription, or leave it out."],
  endpoint_not_allowed: ["The stack does not send to this endpoint: no push service on its list, or a webhook's address that is not public or not on port 443.", "Check the parameter PushHosts, or the webhook's URL."],
  bad_subscription_key: ["The browser's keys in the subscription are invalid.", "Have the page subscribe again."],
  unknown_vapid_key: ["The stack does not have the key that the browser subscribed with.", "Unsubscribe, and subscribe again with the stack's current key."],
  payload_too_large: ["The payload is longer than the push service or the channel accepts.", "Send less, and have the page load the rest."],
  rejected: ["The receiver rejected the message, and would reject it again.", "Look at the status: what is sent has to change."],
  unauthorized: ["The receiver does not accept the signature.", "Check the VAPID subject, the keys and the clock: `redial doctor`."],
  forbidden: ["The key is not the one that the browser subscribed with; or a webhook's receiver does not permit the request.", "Unsubscribe, and subscribe again with the stack's current key; for a webhook, ask its receiver."],
  redirected: ["The receiver redirects elsewhere, and redirects are not followed.", "Store the final URL in the subscription."],
  gone: ["The browser gave its subscription up; or a webhook's receiver answered 410.", "Have the page subscribe again; for a webhook, `redial subscriptions enable` once it works again."],
  not_found: ["The receiver does not know this endpoint.", "Have the page subscribe again; for a webhook, check the URL."],
  rate_limited: ["The receiver asks for fewer requests.", "Nothing: it is retried when the receiver permits it. A limit keeps the pace lower: `redial limits set`."],
  server_error: ["The receiver has an error of its own.", "Nothing for now: it is retried. Its status page says more about an outage."],
  not_ready: ["The receiver is not ready, or gave up waiting for the request.", "Nothing: it is retried."],
  retryable_by_policy: ["The retry policy counts this status as temporary.", "Nothing: it is retried."],
  permanent_by_policy: ["The retry policy counts this status as permanent.", "Change the policy if it should be retried: `redial policy explain`."],
  not_sent: ["No connection: the name, the connection or TLS failed, so nothing was sent.", "Check that the stack can reach the receiver; the delivery says which step failed."],
  in_doubt: ["The request was sent and no answer came back: it may have arrived.", "Nothing: it is retried, and the receiver drops duplicates by the id."],
  in_doubt_not_retried: ["The request was sent and no answer came back, and the policy does not repeat what may have arrived.", "Ask the receiver whether it has the message."],
  retries_exhausted: ["Every retry of the policy has failed.", "Correct the cause, then `redial dead-letters replay`."],
  ttl_exceeded: ["The next retry would come after the end of its time to live.", "Send it again with a longer time to live, if it is still wanted."],
  ttl_over: ["Its time to live ended before it could be sent.", "Send it again with a longer time to live, if it is still wanted."],
  retries_disabled: ["The attempt failed, and the policy has no retries.", "Choose a policy with retries, or send it again."],
  cancelled: ["It was cancelled before it was sent.", "Nothing."],
  quota_exceeded: ["The tenant has as many waiting messages as its quota allows.", "Wait until some are sent, or raise the quota: `redial limits set-quota`."],
  poison: ["The message crashed its worker again and again, and was taken out of its queue.", "Read the worker's log: `redial tail`; then report the crash."],
};

/** What happened and what to do next, as `{cause, next}`; a label that is not listed is its own cause. */
export function explain(label) {
  const [cause, next] = REASONS[label] ?? [label, ""];
  return { cause, next };
}
