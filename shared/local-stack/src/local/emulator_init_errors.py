"""Has a function's log say that the function failed to initialise, and why.

Lambda writes that into the log, after what the function itself printed. The emulator writes it to its own log only, where no command
looks. The line is the one that functions have which run beside an emulator.
"""

MARK = "initialisation failed: "


def log_init_errors():
    from ministack.core import lambda_runtime
    from ministack.services import lambda_svc

    spawn, execute = lambda_runtime.ProvidedWorker._spawn, lambda_svc._execute_function_provided_warm

    def spawned(self, *arguments, **named):
        try:
            spawn(self, *arguments, **named)
        except Exception as error:
            # As Lambda does, the emulator tries again, with the function's own timeout.
            if isinstance(error, lambda_runtime.ProvidedInitTimeout) and not (arguments or named):
                raise
            words = " ".join(str(error).split())
            # The emulator ended it itself, for another program or configuration.
            if words.startswith("bootstrap exited during init with code -1"):
                raise
            failed = lambda_runtime.ProvidedRuntimeError(MARK + words, getattr(error, "error_type", "Runtime.ExitError"))
            raise failed from error

    def executed(function, event, request_id):
        result = execute(function, event, request_id)
        body = result.get("body")
        message = body.get("errorMessage") if result.get("error") and isinstance(body, dict) else None
        if isinstance(message, str) and message.startswith(MARK) and not result.get("log"):
            result["log"] = message
        return result

    lambda_runtime.ProvidedWorker._spawn = spawned
    lambda_svc._execute_function_provided_warm = executed
