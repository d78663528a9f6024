import type { z } from 'zod'
import type { ChainCheck } from '../../payments/audit/verify-activity.ts'
import type { Who } from '../../payments/audit/who.ts'
import type { ListedActivity } from '../../repositories/audit/activity-queries.ts'
import type { WebhookRow } from '../../repositories/webhooks/webhook-log.ts'
import { iso, isoOrNull } from '../field-schemas.ts'
import type { WebhookLog } from './admin-schemas.ts'

export function viewWebhook(row: WebhookRow): z.input<typeof WebhookLog> {
  return {
    id: row.id,
    client: row.client,
    mp_user_id: row.mp_user_id,
    request_id: row.request_id,
    topic: row.topic,
    action: row.action,
    resource_id: row.resource_id,
    order_id: row.order_id,
    live_mode: row.live_mode,
    signature_valid: row.signature_valid,
    signature_form: row.signature_form,
    status: row.status,
    error_message: row.error_message,
    payload: row.payload,
    deliveries: row.deliveries,
    received_at: iso(row.received_at),
    processed_at: isoOrNull(row.processed_at),
    duration_ms: row.duration_ms,
  }
}

export function viewActivity(row: ListedActivity, who: Who) {
  return {
    id: row.id,
    client_name: row.client_name,
    ip_address: row.ip_address,
    action: row.action,
    resource_type: row.resource_type,
    resource_id: row.resource_id,
    status: row.status,
    error_message: row.error_message,
    metadata: row.metadata,
    who,
    duration_ms: row.duration_ms,
    created_at: iso(row.created_at),
    seq: row.seal?.seq ?? null,
    hash: row.seal?.hash ?? null,
  }
}

export function viewCheck({ brokenAt, findings, ...check }: ChainCheck) {
  return {
    ...check,
    broken_at: brokenAt,
    findings: findings.map(({ seq, entryId, reason }) => ({ seq, entry_id: entryId, reason })),
  }
}
