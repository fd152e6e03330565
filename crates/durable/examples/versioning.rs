//! Changing deployed code: a careless change blocks the runs under way, `patched` carries them on; and two versions side by side.
//!
//! ```sh
//! cargo run --example versioning
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;

use everruns_durable::prelude::*;

#[activity]
async fn charge(order: u32) -> ActivityResult<()> {
    println!("order {order}: charged");
    Ok(())
}

#[activity]
async fn mail_receipt(order: u32) -> ActivityResult<String> {
    Ok(format!("order {order}: a receipt by mail"))
}

#[activity]
async fn push_receipt(order: u32) -> ActivityResult<String> {
    Ok(format!("order {order}: a receipt on the phone"))
}

/// What was deployed first.
mod monday {
    use super::*;

    #[workflow]
    pub(crate) async fn checkout(ctx: WorkflowContext, order: u32) -> WorkflowResult<String> {
        ctx.activity::<charge>(order).await?;
        let receipt = ctx.activity::<mail_receipt>(order).await?;
        ctx.signal::<()>("collected").await?;
        Ok(receipt)
    }
}

/// Another activity in the same place: runs that are past it cannot be rebuilt.
mod tuesday {
    use super::*;

    #[workflow]
    pub(crate) async fn checkout(ctx: WorkflowContext, order: u32) -> WorkflowResult<String> {
        ctx.activity::<charge>(order).await?;
        let receipt = ctx.activity::<push_receipt>(order).await?;
        ctx.signal::<()>("collected").await?;
        Ok(receipt)
    }
}

/// The same change, with the old side kept for the runs that took it.
mod wednesday {
    use super::*;

    #[workflow]
    pub(crate) async fn checkout(ctx: WorkflowContext, order: u32) -> WorkflowResult<String> {
        ctx.activity::<charge>(order).await?;
        let receipt = if ctx.patched("receipts on the phone") {
            ctx.activity::<push_receipt>(order).await?
        } else {
            ctx.activity::<mail_receipt>(order).await?
        };
        ctx.signal::<()>("collected").await?;
        Ok(receipt)
    }
}

/// A version that new runs are pinned to. Both versions can be hosted at once.
mod thursday {
    use super::*;

    #[workflow(version = "2.0.0")]
    pub(crate) async fn checkout(_ctx: WorkflowContext, order: u32) -> WorkflowResult<String> {
        Ok(format!("order {order}: free of charge"))
    }
}

fn build(builder: EngineBuilder, id: &str) -> EngineBuilder {
    builder
        .build_id(id)
        .activity(charge)
        .activity(mail_receipt)
        .activity(push_receipt)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let builder = build(Engine::open(url), "monday");
    let engine = builder.workflow::<monday::checkout>().start().await?;
    let store = Arc::clone(engine.store());
    let old = engine.client().start::<monday::checkout>(1).await?;
    let mut mailed = false;
    while !mailed {
        let history = engine.client().history(old.id()).await?;
        let types = history.events.iter().map(|event| event.event.event_type());
        mailed = types.filter(|kind| *kind == "activity.completed").count() == 2;
        tokio::task::yield_now().await;
    }
    engine.shutdown().await?;

    let builder = build(Engine::on(Arc::clone(&store)), "tuesday");
    let engine = builder.workflow::<tuesday::checkout>().start().await?;
    let old = engine.client().run::<tuesday::checkout>(old.id());
    old.signal("collected", &()).await?;
    let blocked = loop {
        if let Some(blocked) = old.get().await?.blocked {
            break blocked;
        }
        tokio::task::yield_now().await;
    };
    println!("tuesday's build is refused: {}", blocked.reason);
    engine.shutdown().await?;

    let builder = build(Engine::on(Arc::clone(&store)), "wednesday");
    let engine = builder.workflow::<wednesday::checkout>().start().await?;
    let client = engine.client();
    let old = client.run::<wednesday::checkout>(old.id());
    println!("wednesday, an old run: {}", old.result().await?);
    let start = client.start::<wednesday::checkout>(2);
    let new = start.signal("collected", &()).await?;
    println!("wednesday, a new run: {}", new.result().await?);
    let pinned = client.start::<wednesday::checkout>(3).await?;
    engine.shutdown().await?;

    let engine = build(Engine::on(store), "thursday")
        .workflow::<wednesday::checkout>()
        .workflow::<thursday::checkout>()
        .start()
        .await?;
    let new = engine.run::<thursday::checkout>(4).await?;
    println!("thursday, a new run: {new}");
    let pinned = engine.client().run::<wednesday::checkout>(pinned.id());
    pinned.signal("collected", &()).await?;
    println!("thursday, a run pinned before: {}", pinned.result().await?);
    engine.shutdown().await
}
