//! What went wrong, for the person who must act.

use std::fmt;

/// A failed command: what, why, what to do next, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    what: String,
    cause: Option<String>,
    hint: Option<String>,
    pub(crate) is_silent: bool,
}

/// Exit codes that scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// It failed, though there was nothing wrong with what was asked.
    Failed = 1,
    /// What was asked, or what was given, makes no sense.
    BadInput = 2,
    /// Some sources failed, the rest is done.
    SomeFailed = 3,
    /// A target was missed.
    TargetMissed = 4,
    /// The budget allows no poll now.
    BudgetBlocks = 8,
    /// There is no project here.
    NoProject = 10,
    /// Another process uses the store.
    InUse = 11,
    /// Stopped since the terminal is gone, cleanly.
    HungUp = 129,
    /// Stopped by Ctrl-C, cleanly.
    Interrupted = 130,
    /// Stopped by SIGTERM, cleanly.
    Terminated = 143,
}

pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// Bad input or usage.
    pub(crate) fn input(what: impl Into<String>) -> Self {
        Self::new(Code::BadInput, what)
    }

    /// A failure of ours, or of the machine.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::new(Code::Failed, what)
    }

    /// Anything else that scripts tell apart.
    pub(crate) fn new(code: Code, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            cause: None,
            hint: None,
            is_silent: false,
        }
    }

    /// What the program ends with.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// What and why, without what to do.
    pub(crate) fn in_a_line(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{}: {cause}", self.what),
            None => self.what.clone(),
        }
    }

    /// Why, if that is known.
    pub(crate) fn why(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// What to do next, if there is something.
    pub(crate) fn next_step(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same, not to be talked about.
    #[must_use]
    pub(crate) fn silent(self) -> Self {
        Self {
            is_silent: true,
            ..self
        }
    }

    #[must_use]
    pub(crate) fn cause(self, cause: impl fmt::Display) -> Self {
        let cause = Some(cause.to_string());
        Self { cause, ..self }
    }

    #[must_use]
    pub(crate) fn hint(self, hint: impl fmt::Display) -> Self {
        let hint = Some(hint.to_string());
        Self { hint, ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        if let Some(cause) = &self.cause {
            write!(f, "\n  cause: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint:  {hint}")?;
        }
        Ok(())
    }
}
