# What the variables accept. `.ci/run release` runs this without the provider, against the variables alone.

variables {
  vapid_subject   = "mailto:push@shop.example"
  vapid_secret_id = "redial/vapid"
}

run "defaults_are_the_template_s" {
  command = plan

  assert {
    condition     = output.parameters["VapidSecretId"] == "redial/vapid" && output.parameters["IngestConcurrency"] == "20"
    error_message = "the parameters are others: ${jsonencode(output.parameters)}"
  }
}

run "values_are_passed_on" {
  command = plan

  variables {
    api_kind         = "HttpApi"
    api_cors_origins = "https://shop.example,https://news.example"
    push_hosts       = "*.push.apple.com"
    memory_size      = 512
  }

  assert {
    condition     = output.parameters["ApiKind"] == "HttpApi" && output.parameters["MemorySize"] == "512"
    error_message = "the parameters are others: ${jsonencode(output.parameters)}"
  }
}

run "a_value_that_is_no_choice_is_refused" {
  command = plan

  variables {
    api_kind = "Gateway"
  }

  expect_failures = [var.api_kind]
}

run "a_number_out_of_range_is_refused" {
  command = plan

  variables {
    function_timeout = 900
  }

  expect_failures = [var.function_timeout]
}

run "text_of_another_form_is_refused" {
  command = plan

  variables {
    vapid_subject     = "push@shop.example"
    default_time_zone = "Europe/Berlin!"
  }

  expect_failures = [var.vapid_subject, var.default_time_zone]
}

run "an_empty_secret_is_refused" {
  command = plan

  variables {
    vapid_secret_id = ""
  }

  expect_failures = [var.vapid_secret_id]
}
