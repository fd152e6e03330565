//! What the server refused, as a failure of the command.

use reqwest::{Response, StatusCode};
use serde::Deserialize;

use crate::exit::{Exit, Failure};

/// RFC 9457, as far as a person needs it.
#[derive(Debug, Default, Deserialize)]
struct Problem {
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    code: String,
    hint: Option<String>,
}

/// Reads an answer that is no success.
pub(super) async fn read(response: Response) -> Failure {
    let (status, url) = (response.status(), response.url().clone());
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let text = response.text().await.unwrap_or_default();
    // Whatever stands between us and the server answers in its own words.
    let problem: Problem = serde_json::from_str(&text).unwrap_or_default();
    let sentence = [&problem.detail, &problem.title]
        .into_iter()
        .find(|text| !text.is_empty());
    let sentence = sentence
        .cloned()
        .unwrap_or_else(|| format!("{url} answered {status}"));
    let code = if problem.code.is_empty() {
        String::new()
    } else {
        format!(" ({})", problem.code)
    };
    let exit = match problem.code.as_str() {
        "update_failed" => Exit::WorkflowFailed,
        _ => exit(status),
    };
    let failure = Failure::new(exit, sentence + &code);
    let again = retry_after.map(|seconds| format!("try again in {seconds} s"));
    match problem.hint.or(again) {
        Some(hint) => failure.hint(hint),
        None if status == StatusCode::UNAUTHORIZED => {
            failure.hint("set DURABLE_TOKEN, or DURABLE_TOKEN_FILE to a file that holds it")
        }
        None => failure,
    }
}

fn exit(status: StatusCode) -> Exit {
    match status.as_u16() {
        401 | 403 => Exit::Auth,
        404 | 410 => Exit::NotFound,
        409 | 412 => Exit::Conflict,
        400 | 405 | 406 | 413 | 415 | 422 => Exit::Usage,
        502..=504 => Exit::Unreachable,
        _ => Exit::Failure,
    }
}
