-- Payments of the provider that cannot be read: few, and counted often.
create index provider_payments_unreadable on provider_payments (client, sold_at) where status = 'unreadable';
