"""Has another SQS keep a stack's queues.

A caller sees the emulator's URLs and ARNs, and the part is called by its own, which differ in host and account. They are replaced where
the API has them, and nowhere else: what producers send stays byte for byte as it is. Messages that the emulator's own Step Functions
send go to the part, too.
"""

import http.client
import json
import threading

from emulator_parts import PartError, apart, code_of, message_of, renamed, renamed_in_text

# What a queue has of its own, wherever it is.
OWN = ("QueueArn", "CreatedTimestamp", "LastModifiedTimestamp")
# They name queues that may not exist yet.
AFTERWARDS = ("Policy", "RedriveAllowPolicy")
NUMBERS = ("DelaySeconds", "MaxNumberOfMessages", "MaxResults", "VisibilityTimeout", "WaitTimeSeconds")


class Queues:
    def __init__(self, part, made):
        self.part, self.made = part, made
        self.making = threading.Lock()
        # The emulator's name for a queue or an ARN, and the part's; and the other way round.
        self.theirs, self.ours = {}, {}

    def take_over(self):
        """Answers the emulator's calls of SQS in its place."""
        from ministack.services import sqs

        self.sqs = sqs
        self.shapes = {legacy: code for code, legacy in sqs._QUERY_COMPAT_CODES.items()}
        self.own = dict(sqs._HANDLERS)

        async def dispatch(action, data, url):
            return await apart(self.answered, action, data, url)

        sqs._dispatch = dispatch
        sqs._act_send_message = lambda data, url: self.answered("SendMessage", data, url)

    def make(self):
        """Makes the queues that the part does not have yet, dead-letter queues before those that name them."""
        with self.making:
            new = [queue for url, queue in list(self.sqs._queues.items()) if url not in self.theirs]
            for queue in new:
                self.make_one(queue)
            for queue in new:
                attributes = {name: queue["attributes"][name] for name in AFTERWARDS if queue["attributes"].get(name)}
                if attributes:
                    self.call("SetQueueAttributes", {"Attributes": attributes}, queue["url"])

    def make_one(self, queue):
        if queue["url"] in self.theirs:
            return
        attributes = {name: value for name, value in queue["attributes"].items() if name not in OWN + AFTERWARDS}
        redrive = json.loads(attributes.get("RedrivePolicy") or "{}")
        dead_letters = self.sqs._queue_by_arn(redrive.get("deadLetterTargetArn", ""))
        if dead_letters:
            self.make_one(dead_letters)
        request = {"QueueName": queue["name"], "Attributes": self.with_names(attributes, self.theirs)}
        if queue["tags"]:
            request["tags"] = queue["tags"]
        self.made.note(self.part, queue["name"])
        url = self.part.done("CreateQueue", request)["QueueUrl"]
        asked = {"QueueUrl": url, "AttributeNames": ["QueueArn"]}
        arn = self.part.done("GetQueueAttributes", asked)["Attributes"]["QueueArn"]
        own_arn = queue["attributes"]["QueueArn"]
        self.ours.update({url: queue["url"], arn: own_arn})
        self.theirs.update({own_arn: arn, queue["url"]: url})

    @staticmethod
    def with_names(attributes, names):
        return {name: renamed_in_text(names.get(value, value), names) for name, value in attributes.items()}

    def answered(self, action, data, url):
        """The result of a call, as the emulator's own handlers have it."""
        refused = self.sqs._Err
        if action not in self.own:
            raise refused("InvalidAction", f"The action {action} is not valid for this endpoint.")
        try:
            self.make()
            if action in ("GetQueueUrl", "ListQueues"):
                return self.own[action](data, url)
            if action == "CreateQueue":
                created = self.own[action](data, url)
                self.make()
                return created
            return self.call(action, data, data.get("QueueUrl") or url)
        except PartError as error:
            raise refused("PartRefused", str(error)) from error
        except (OSError, http.client.HTTPException) as error:
            message = f"{type(error).__name__} at {self.part.endpoint}: {error}"
            raise refused("PartUnavailable", message, 503) from error

    def call(self, action, data, url):
        queue = self.sqs._get_q(url)
        request = {**data, "QueueUrl": self.theirs[queue["url"]]}
        for name in NUMBERS:
            if isinstance(request.get(name), str):
                request[name] = int(request[name])
        if action == "SetQueueAttributes":
            request["Attributes"] = self.with_names(request.get("Attributes") or {}, self.theirs)
        status, answer = self.part.call(action, request)
        if status != 200:
            code = code_of(answer)
            raise self.sqs._Err(self.shapes.get(code, code) or "PartRefused", message_of(answer), status)
        if action == "GetQueueAttributes":
            answer["Attributes"] = self.with_names(answer.get("Attributes") or {}, self.ours)
        for message in answer.get("Messages") or []:
            message["Attributes"] = renamed(message.get("Attributes") or {}, self.ours)
        if action == "DeleteQueue":
            self.own[action](data, url)
            self.ours.pop(self.theirs.pop(queue["url"]), None)
        return {name: value for name, value in answer.items() if value is not None}
