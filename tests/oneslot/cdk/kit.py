"""A stack with the construct around a handler of one line, and its template. Inline code spares the asset of a folder."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from oneslot.cdk import ExactlyOnceConsumer, new_table

from aws_cdk import App, Stack  # isort: skip - after the package that chooses the Node.js for it
from aws_cdk import aws_lambda as lambda_  # isort: skip
from aws_cdk.assertions import Template  # isort: skip

from tests.kits.stacks import resolve

INLINE = lambda_.Code.from_inline("def handler(event, context): ...")


@dataclass(frozen=True)
class Defined:
    """A stack before it is synthesised, and the construct in it."""

    app: App
    stack: Stack
    consumer: ExactlyOnceConsumer

    @cached_property
    def template(self) -> dict[str, Any]:
        """The template. Nothing that is defined later is in it."""
        return dict(Template.from_stack(self.stack).to_json())

    def resources(self, resource_type: str) -> list[dict[str, Any]]:
        """Return the resources' properties, each reference by a readable name."""
        found = [each for each in self.template["Resources"].values() if each["Type"] == resource_type]
        return [resolve(each.get("Properties", {})) for each in found]

    def only(self, resource_type: str) -> dict[str, Any]:
        """Return the properties of the only resource of this type."""
        (properties,) = self.resources(resource_type)
        return properties

    def logical_id(self, resource: Any) -> str:
        """Return the logical id of a resource's element."""
        return str(self.stack.get_logical_id(resource.node.default_child))


def new_stack(folder: Path) -> tuple[App, Stack]:
    """Return an app that synthesises into the folder, with one stack."""
    app = App(outdir=str(folder / "assembly"))
    return app, Stack(app, "Shop")


def handler_folder(folder: Path) -> Path:
    """Return a new folder with `app.handler`."""
    entry = folder / "orders"
    entry.mkdir(exist_ok=True)
    (entry / "app.py").write_text("def handler(event, context): ...\n", encoding="utf-8")
    return entry


def define(folder: Path, stack: tuple[App, Stack] | None = None, **properties: Any) -> Defined:
    """Define the consumer of orders. It writes to the table "shipments" unless the properties name other tables."""
    app, shop = stack or new_stack(folder)
    if "tables" not in properties:
        properties["tables"] = {"shipments": new_table(shop, "Shipments", "shipment_id")}
    if not {"code", "entry", "handler"} & properties.keys():
        properties["code"] = INLINE
    elif "code" not in properties:
        properties.setdefault("entry", handler_folder(folder))
    return Defined(app, shop, ExactlyOnceConsumer(shop, "Orders", **{"handler": "app.handler", **properties}))
