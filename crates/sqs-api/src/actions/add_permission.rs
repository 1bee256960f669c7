//! AddPermission: lets other accounts use a queue, by a statement of its policy.

use serde::Deserialize;
use types::TenantId;

use super::{Action, Doc, QUEUE_URL, TABLE, required};
use crate::permissions::{self, Permission};
use crate::wire::Text;
use crate::{ApiError, Code, Context, Reply};

pub(crate) struct AddPermission;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    label: Option<Text<'a>>,
    #[serde(borrow, rename = "AWSAccountIds")]
    accounts: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    actions: Option<Vec<Text<'a>>>,
}

impl Action for AddPermission {
    const NAME: &'static str = "AddPermission";
    const DOC: Doc = Doc {
        summary: "Lets other accounts use a queue, by a statement of its policy.",
        parameters: &[
            QUEUE_URL,
            required(
                "Label",
                "The name of the statement: 1 to 80 letters, digits, hyphens and underscores.",
            ),
            required("AWSAccountIds", "The accounts, of twelve digits each."),
            required(
                "Actions",
                "One to seven names of actions, or `*`. `SendMessage`, `DeleteMessage` and `ChangeMessageVisibility` \
                 stand for their batch actions too.",
            ),
        ],
        errors: &[Code::OverLimit, Code::QueueDoesNotExist],
        notes: &[
            "A policy has up to 20 statements.",
            "Only actions can be named that a policy can give to other accounts: see Access below.",
            "It is not checked whether an account exists.",
            "A policy that was there before is written anew, its members in alphabetical order.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let label = request.label.ok_or_else(|| ApiError::missing("Label"))?;
        permissions::check_label(&label)?;
        let accounts = request.accounts.filter(|accounts| !accounts.is_empty());
        let accounts = accounts.ok_or_else(|| ApiError::missing("AWSAccountIds"))?;
        let actions = request.actions.filter(|actions| !actions.is_empty());
        let actions = actions.ok_or_else(|| ApiError::missing("Actions"))?;
        permissions::check_action_count(actions.len())?;
        actions.iter().try_for_each(|action| check_action(action))?;
        let permission = Permission {
            label: &label,
            accounts: accounts
                .iter()
                .map(|account| parse_account(account))
                .collect::<Result<_, _>>()?,
            actions: actions.iter().map(Text::as_str).collect(),
        };
        context
            .change_policy(&key, |policy, arn| {
                permissions::with(policy, &permission, arn).map(Some)
            })
            .await?;
        Ok(context.reply(&()))
    }
}

fn parse_account(account: &str) -> Result<TenantId, ApiError> {
    account
        .parse()
        .map_err(|_| ApiError::invalid_value(format!("[{account}]"), "PrincipalId", "Unable to verify."))
}

fn check_action(action: &str) -> Result<(), ApiError> {
    let can_be_given = |entry: &super::Entry| entry.access.policy_action() == Some(action);
    if action == "*" || TABLE.iter().any(can_be_given) {
        return Ok(());
    }
    let is_owners = super::find(action).is_some_and(|entry| entry.access.policy_action().is_none());
    let reason = if is_owners {
        "Only the queue owner is allowed to invoke this action."
    } else {
        "Please refer to the appropriate WSDL for a list of valid actions."
    };
    Err(ApiError::invalid_value(
        format!("SQS:{action}"),
        "ActionName",
        reason,
    ))
}
