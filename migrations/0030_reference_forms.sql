-- References are compared in one Unicode form (NFC); the text itself stays as the ERP wrote it.
create index orders_equal_form on orders (client, normalize(external_reference), caja_id, amount_cents);
drop index orders_equal;
