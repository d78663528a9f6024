import type { DeliveryJob } from '../../src/flows/types.ts'

/** A delivery of the store SUC-1 with a test's changes. */
export function job(change: Partial<DeliveryJob> = {}): DeliveryJob {
  return {
    flow: 'stores',
    destination: 'web',
    pk: 'SUC-1',
    key: ['SUC-1'],
    kind: 'upsert',
    item: { codigo: 'SUC-1', nombre: 'Centro' },
    body: { external_id: 'SUC-1', name: 'Centro' },
    jobKey: 'a'.repeat(64),
    attempt: 1,
    mayStart: () => true,
    ...change,
  }
}

export const never: AbortSignal = new AbortController().signal

export const clock = (at = '2026-11-21T14:30:00.000Z') => {
  return () => new Date(at)
}
