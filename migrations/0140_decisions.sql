-- expand: the version before leaves both columns as they are
-- An order whose provider shows a status that is not known here: a person may decide about it at once.
alter table orders add column unknown_status text;
-- Whether an unclaimed payment was adopted in order to refund it: a refund does not replace the decision to adopt it as a sale.
alter table orphans add column refund_asked boolean not null default false;
update orphans set refund_asked = true
where state = 'adopted' and exists (select from idempotency_keys link
  where link.client = orphans.client and link.route = 'POST /orders/refund' and link.key = 'orphan-' || orphans.id::text);
