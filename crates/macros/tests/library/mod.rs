//! The library as far as an expansion names it, without what makes it durable.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a test uses a part of it, and nobody reads it"
)]

pub mod prelude {
    pub use durable_macros::{activity, workflow};

    pub use super::macro_support::{
        ActivityContext, ActivityError, ExhaustedPolicy, RetryPolicy, WorkflowContext,
    };

    pub type ActivityResult<T> = Result<T, ActivityError>;
    pub type WorkflowResult<T> = Result<T, String>;
}

pub mod macro_support {
    use std::pin::Pin;
    use std::time::Duration;

    pub use async_trait::async_trait;

    /// What an activity is told.
    #[derive(Debug, Clone)]
    pub struct ActivityContext(pub u32);

    /// What a workflow is told.
    #[derive(Debug, Clone)]
    pub struct WorkflowContext;

    /// Why an activity failed.
    #[derive(Debug, PartialEq)]
    pub struct ActivityError;

    /// A result, whatever alias it goes by.
    pub trait ResultType {
        type Ok;
    }

    impl<T, E> ResultType for Result<T, E> {
        type Ok = T;
    }

    #[derive(Debug, Clone, PartialEq)]
    pub struct RetryPolicy {
        pub max_attempts: u32,
        pub jitter: f64,
    }

    impl RetryPolicy {
        pub fn steady() -> Self {
            Self {
                max_attempts: 7,
                jitter: 0.0,
            }
        }
    }

    impl Default for RetryPolicy {
        fn default() -> Self {
            Self {
                max_attempts: 3,
                jitter: 0.2,
            }
        }
    }

    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub enum ExhaustedPolicy {
        #[default]
        Fail,
        Park,
    }

    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct ActivityOptions {
        pub retry_policy: RetryPolicy,
        pub schedule_to_start_timeout: Duration,
        pub start_to_close_timeout: Duration,
        pub heartbeat_timeout: Option<Duration>,
        pub schedule_to_close_timeout: Option<Duration>,
        pub priority: i32,
        pub on_exhausted: ExhaustedPolicy,
        pub sequential: bool,
    }

    #[async_trait]
    pub trait Activity: Send + Sync + 'static {
        const TYPE: &'static str;
        const TRANSACTIONAL: bool = false;
        type Input: Send;
        type Output: Send;

        fn options() -> ActivityOptions
        where
            Self: Sized,
        {
            ActivityOptions::default()
        }

        async fn execute(
            &self,
            ctx: &ActivityContext,
            input: Self::Input,
        ) -> Result<Self::Output, ActivityError>;
    }

    /// What a program is born with.
    pub struct Birth;

    /// A workflow under way: here, nothing but its future.
    pub trait Program {
        fn run(self: Box<Self>) -> Pin<Box<dyn Future<Output = String>>>;
    }

    #[derive(Debug, Default, PartialEq)]
    pub struct RunDefaults {
        pub execution_timeout: Option<Duration>,
        pub run_timeout: Option<Duration>,
    }

    pub trait WorkflowDefinition: 'static {
        const TYPE: &'static str;
        const VERSION: &'static str = "";
        type Input: Default + 'static;
        type Output: std::fmt::Debug + 'static;

        fn program(birth: Birth) -> Box<dyn Program>;

        fn defaults() -> RunDefaults {
            RunDefaults::default()
        }
    }

    struct FunctionProgram(Pin<Box<dyn Future<Output = String>>>);

    impl Program for FunctionProgram {
        fn run(self: Box<Self>) -> Pin<Box<dyn Future<Output = String>>> {
            self.0
        }
    }

    /// Runs the body on the input's default; what it answers is shown as text.
    pub fn function_program<W, F, Fut>(_birth: Birth, body: F) -> Box<dyn Program>
    where
        W: WorkflowDefinition,
        F: FnOnce(WorkflowContext, W::Input) -> Fut + 'static,
        Fut: Future<Output = Result<W::Output, String>> + 'static,
    {
        let running = body(WorkflowContext, W::Input::default());
        Box::new(FunctionProgram(Box::pin(async move {
            format!("{:?}", running.await)
        })))
    }
}
