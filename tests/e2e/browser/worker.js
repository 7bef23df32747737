
// Runs in the service worker under test, after `redial-sw.js`: fires what this browser does not fire by itself, as the page's driver orders.
{
  // The event of a `mutable` declarative push in WebKit. It refuses a notification without `navigate`, and promises of `setAppBadge` stay
  // pending. `hangs`: a promise of `showNotification` does, too. Ends with the event.
  const declarativePush = async ({ notification, hangs }) => {
    const { registration } = self;
    const show = registration.showNotification.bind(registration);
    registration.showNotification = async (title, options) => {
      if (!options?.navigate) {
        throw new TypeError("showNotification() did not include a valid defaultAction url");
      }
      return hangs ? new Promise(() => {}) : show(title, options);
    };
    self.navigator.setAppBadge = () => new Promise(() => {});
    const ends = [];
    const event = Object.defineProperties(new PushEvent("push"), {
      notification: { value: notification },
      appBadge: { value: 3 },
      waitUntil: { value: (promise) => ends.push(promise) },
    });
    self.dispatchEvent(event);
    try {
      await Promise.all(ends);
    } finally {
      delete registration.showNotification;
      delete self.navigator.setAppBadge;
    }
  };

  const ORDERS = { declarativePush };

  self.addEventListener("message", (event) => {
    const order = ORDERS[event.data?.test];
    if (order) {
      const [port] = event.ports;
      const done = order(event.data).then(
        () => port.postMessage({ ok: true }),
        (error) => port.postMessage({ error: String(error) }),
      );
      event.waitUntil(done);
    }
  });
}
