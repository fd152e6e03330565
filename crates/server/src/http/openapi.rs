//! The description of the API, made of the routes themselves.

use utoipa::OpenApi as _;
use utoipa::openapi::link::LinkBuilder;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem, Paths};
use utoipa::openapi::schema::{AnyOfBuilder, Schema};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;

use super::PREFIX;
use super::problem::ProblemView;
use super::table::{Route, routes};
use crate::App;
use crate::auth::{Access, Permission};

/// What all routes have in common.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Durable",
        description = "The control plane of Durable. Every route below `/v1/durable` answers the same below `/api/durable`. \
            Refusals are `application/problem+json` with a stable `code`, a sentence and a hint."
    ),
    components(schemas(ProblemView))
)]
struct Common;

/// The whole description. Tokens are spoken of only where some are asked for.
pub(super) fn describe(access: &Access) -> OpenApi {
    let mut below: OpenApiRouter<App> = OpenApiRouter::default();
    for Route {
        permission,
        described,
    } in routes()
    {
        let (schemas, mut paths, handler) = described;
        for item in paths.paths.values_mut() {
            operations(item).for_each(|operation| {
                complete(operation);
                if !access.is_open() {
                    operation.security = Some(vec![SecurityRequirement::new(
                        "token",
                        [permission.as_str()],
                    )]);
                }
            });
        }
        below = below.routes((schemas, paths, handler));
    }
    let whole = OpenApiRouter::with_openapi(Common::openapi()).nest(PREFIX, below);
    let (_, mut api) = whole.split_for_parts();
    for made_by in ["workflows", "schedules"] {
        link(&mut api, &format!("{PREFIX}/{made_by}"));
    }
    any_kind(&mut api, "AttributeView");
    if !access.is_open() {
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = api.components.get_or_insert_default();
        components
            .security_schemes
            .insert("token".to_owned(), bearer.into());
    }
    api
}

/// Every method of every path, with the permission it takes.
pub(super) fn listed() -> Vec<(String, String, Permission)> {
    let mut list = Vec::new();
    for route in routes() {
        let permission = route.permission;
        for (path, mut item) in route.described.1.paths {
            let methods = [
                ("GET", item.get.take()),
                ("POST", item.post.take()),
                ("DELETE", item.delete.take()),
            ];
            let methods = methods
                .into_iter()
                .filter(|(_, operation)| operation.is_some());
            list.extend(
                methods
                    .map(|(method, _)| (method.to_owned(), format!("{PREFIX}{path}"), permission)),
            );
        }
    }
    list
}

/// The name of a route's operation, as the description has it.
pub(super) fn operation_id(paths: &Paths) -> String {
    let items = paths.paths.values();
    let operations = items.flat_map(|item| [&item.get, &item.post, &item.delete]);
    let mut named = operations
        .flatten()
        .filter_map(|it| it.operation_id.clone());
    named.next().unwrap_or_default()
}

/// Whether a route's operation takes parameters behind the `?`.
pub(super) fn takes_parameters(paths: &Paths) -> bool {
    let items = paths.paths.values();
    let operations = items.flat_map(|item| [&item.get, &item.post, &item.delete]);
    let parameters = operations
        .flatten()
        .filter_map(|it| it.parameters.as_ref())
        .flatten();
    // One that is only referred to is not looked into: it may be anywhere.
    parameters.into_iter().any(|it| match it {
        RefOr::T(parameter) => parameter.parameter_in == ParameterIn::Query,
        RefOr::Ref(_) => true,
    })
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.delete]
        .into_iter()
        .filter_map(Option::as_mut)
}

/// What each operation needs and no handler should have to repeat.
fn complete(operation: &mut Operation) {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem")));
    let refusal = ResponseBuilder::new()
        .description("A refusal")
        .content("application/problem+json", content.build())
        .build();
    operation
        .responses
        .responses
        .insert("default".to_owned(), refusal.into());
}

/// Says that the `id` in the answer of a collection's POST is the `{id}` of every route below it.
fn link(api: &mut OpenApi, collection: &str) {
    let below = format!("{collection}/{{id}}");
    let members = api.paths.paths.iter_mut();
    let members = members.filter(|(path, _)| path.starts_with(&below));
    let linked: Vec<String> = members
        .flat_map(|(_, item)| operations(item))
        .filter_map(|operation| operation.operation_id.clone())
        .collect();
    let made = api.paths.paths.get_mut(collection);
    let made = made.and_then(|item| item.post.as_mut());
    let Some(RefOr::T(created)) = made.and_then(|post| post.responses.responses.get_mut("201"))
    else {
        return;
    };
    for operation in linked {
        let link = LinkBuilder::new()
            .operation_id(operation.clone())
            .parameter("id", "$response.body#/id");
        created.links.insert(operation, link.build().into());
    }
}

/// Of a value's kinds any may fit: a whole number is a number too, and the derived `oneOf` would refuse it.
fn any_kind(api: &mut OpenApi, name: &str) {
    let components = api.components.get_or_insert_default();
    if let Some(RefOr::T(schema)) = components.schemas.get_mut(name)
        && let Schema::OneOf(one) = schema
    {
        let kinds = std::mem::take(&mut one.items).into_iter();
        let any = kinds.fold(AnyOfBuilder::new(), AnyOfBuilder::item);
        *schema = Schema::AnyOf(any.description(one.description.take()).build());
    }
}
