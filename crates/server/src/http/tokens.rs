//! Who may come in.

use axum::Json;
use axum::extract::State;
use everruns_durable::core::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::guard::Caller;
use crate::App;
use crate::auth::{Names, Role, TokenRecord};

/// A token, without anything that would let somebody in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TokenView {
    name: String,
    #[schema(value_type = String, example = "operator")]
    role: Role,
    /// Queues it is limited to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    queues: Option<Names>,
    /// Workflow types it is limited to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    workflow_types: Option<Names>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

impl From<TokenRecord> for TokenView {
    fn from(token: TokenRecord) -> Self {
        Self {
            name: token.name,
            role: token.role,
            queues: token.queues,
            workflow_types: token.workflow_types,
            created_at: token.created_at,
            expires_at: token.expires_at,
        }
    }
}

/// Tokens.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TokenList {
    tokens: Vec<TokenView>,
}

/// The tokens that are known here: names, roles and limits. `durable token` makes and revokes them.
#[utoipa::path(get, path = "/tokens", tag = "tokens",
    responses((status = 200, description = "The tokens", body = TokenList)))]
pub(super) async fn list_tokens(State(app): State<App>, _: Caller) -> Json<TokenList> {
    let tokens = app
        .access()
        .tokens()
        .into_iter()
        .map(TokenView::from)
        .collect();
    Json(TokenList { tokens })
}
