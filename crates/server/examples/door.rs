use durable_server::auth::Access;
use durable_server::{App, AppSettings, http};
use everruns_durable::prelude::*;
use serde_json::Value;

#[activity]
async fn echo(_ctx: ActivityContext, n: Value) -> ActivityResult<Value> { Ok(n) }
#[workflow]
async fn echoing(ctx: WorkflowContext, n: Value) -> WorkflowResult<Value> { Ok(ctx.activity::<echo>(n).await?) }
#[workflow]
async fn holding(ctx: WorkflowContext, _n: Value) -> WorkflowResult<Value> {
    ctx.on_query("total", move |_: Value| 1);
    Ok(ctx.signal::<Value>("go").await?) }

#[tokio::main]
async fn main() {
    let url = std::env::args().nth(2).unwrap_or("memory:".into());
    let engine = Engine::open(url).workflow::<echoing>().workflow::<holding>().activity(echo).start().await.unwrap();
    let app = App::new(engine.client(), Access::open(), AppSettings::default());
    let at = std::env::args().nth(1).unwrap();
    let listener = tokio::net::TcpListener::bind(at).await.unwrap();
    axum::serve(listener, http::router(app)).await.unwrap();
}
