import { hash } from 'node:crypto'
import type { KeptBody } from '../../db/column-types.ts'
import { canonicalJson } from '../../domain/json.ts'
import type { Claimant, ItemClaim } from '../../repositories/flows/claims.ts'
import type { PendingDelivery } from '../../repositories/flows/deliveries.ts'
import { destinationIdentity } from '../definition/identity.ts'
import { foldIdentity } from '../item/fold-identity.ts'
import { formerKey } from '../item/item.ts'
import { namesInAddress, usedIn, usesWholeBody } from '../mapping/named-values.ts'
import type { DestinationDefinition, HttpDefinition } from '../types.ts'
import type { ClaimRule, FormerIdentity } from './claim-types.ts'
import { type DeliveryOutcome, failure, type Tried } from './retry-rules.ts'

type Stored = Pick<PendingDelivery, 'pk' | 'claim_exact' | 'delivered_body'>

/**
 * What an upsert leaves under another identity than the stored one: after an arrival what was delivered before; without an answer
 * what was sent. Undefined if there is none, or the stored identity was of another rule, such as fewer columns of `upsertKey`.
 */
export function formerIdentity(
  { claimOf, namesOf }: ClaimRule,
  { pk, claim_exact: stored, delivered_body: delivered }: Stored,
  sent: { body?: KeptBody | undefined; claim?: ItemClaim | undefined },
  hasArrived: boolean,
): FormerIdentity | undefined {
  if (!namesOf || stored === null || !delivered || !sent.claim || sent.claim.exact === stored) {
    return undefined
  }
  const before = claimOf(bodyOfKept(delivered), undefined, pk)
  if (before?.exact !== stored) return undefined
  const [body, claim] = hasArrived ? [delivered, before] : [sent.body, sent.claim]
  return body && { pk: keyOf(pk, namesOf(bodyOfKept(body)), claim), body, claim }
}

function bodyOfKept(kept: KeptBody): unknown {
  return 'whole' in kept ? kept.whole : kept.part
}

const longestKeyBytes = 2_400

function keyOf(pk: string, names: string[], { exact }: ItemClaim): string {
  const key = formerKey(pk, names)
  return Buffer.byteLength(key) > longestKeyBytes ? formerKey(pk, [exact]) : key
}

/**
 * A table is known by the values of `upsertKey`; stores and boxes by `external_id`; an item at an HTTP receiver by the values
 * that its delete request names: the item's key, fields of the body, and what is remembered. No two items of a flow have one
 * key, but a receiver may take two forms of a key for one, and two flows may send the same item.
 */
export function claimRuleOf(definition: DestinationDefinition): ClaimRule | undefined {
  const place = destinationIdentity(definition)
  switch (definition.type) {
    case 'sql': {
      const { upsertKey } = definition
      const claimOf = (body: unknown) => claim(place, valuesOf(body, upsertKey))
      const namesOf = (body: unknown) => textsOf(body, upsertKey)
      return { isFixed: false, canBeShared: true, claimOf, namesOf }
    }
    case 'http': {
      const named = namedByDelete(definition)
      if (!named) return undefined
      const { byKey, remembered, ofBody } = named
      return {
        isFixed: ofBody.length === 0,
        canBeShared: !byKey,
        ...(remembered.length + Number(ofBody.length === 0) === 0 && {
          namesOf: (body: unknown) => textsOf(body, ofBody),
        }),
        claimOf: (body, known, pk) => {
          const kept = valuesOf(known, remembered)
          // Of values that some items do not have, those that an item has are its identity.
          const isKnown = kept.length === 0 || kept.some((value) => value !== null)
          const values = [...(byKey ? pk.split('|') : []), ...kept, ...valuesOf(body, ofBody)]
          return isKnown ? claim(place, values) : undefined
        },
      }
    }
    case 'file':
      return undefined
    default: {
      const claimOf = (body: unknown) => claim(place, valuesOf(body, ['external_id']))
      return { isFixed: false, canBeShared: true, claimOf }
    }
  }
}

/** How long a delete waits until it is looked again whether the other flow still has the item. */
const claimedMs = 60_000

/**
 * Of a delete whose item's identity another living item has. With exactly the same one it would delete that item: it ends if the
 * other flow will delete it, else it waits until that flow misses it. Where only the receiver can tell whether they are the
 * same, it fails, so that a person decides.
 */
export function claimedOutcome(
  tried: Tried,
  attempts: number,
  claimant: Claimant,
): DeliveryOutcome {
  const { pk, flow, isExact, deletes } = claimant
  const data = { pk, flow }
  if (!isExact) {
    return { kind: 'final', ...tried, failure: failure({ code: 'DELETE_ALIKE', data }, attempts) }
  }
  if (deletes) {
    const why = { code: 'DELETE_CLAIMED' as const, data }
    const overwritten = claimant.isOverwritten ? pk : undefined
    return { kind: 'skipped', ...tried, why, forget: true, overwritten }
  }
  const waits = failure({ code: 'DELETE_WAITS', data }, attempts)
  return { kind: 'waits', version: tried.version, failure: waits, delayMs: claimedMs }
}

/**
 * What the delete request names an item by: its key, and the names of remembered values and of the body's fields. A value that
 * is read for each request and not stored is not known of other items: in headers and body it is the state of the item, such as
 * its version. Undefined where the address has one, or the whole body names the item.
 */
function namedByDelete({ delete: remove, find = [], remember: stored = {} }: HttpDefinition) {
  if (!remove) return undefined
  if (usesWholeBody(remove)) return undefined
  const { url, body } = remove
  const [used, ofBody] = [usedIn(remove, 'remembered'), usedIn(remove, 'body')]
  if (used === 'all' || ofBody === 'all') return undefined
  const fresh = find.flatMap((one) => (one.fresh ? Object.keys(one.remember ?? {}) : []))
  const passing = new Set(fresh.filter((name) => !Object.hasOwn(stored, name)))
  if (namesInAddress(url, 'remembered').some((name) => passing.has(name))) return undefined
  const remembered = [...used].filter((name) => !passing.has(name)).sort()
  const byKey = url.template.includes('{pk}') || /\bpk\b/.test(body ?? '')
  if (!byKey && remembered.length + ofBody.size === 0) return undefined
  return { byKey, remembered, ofBody: [...ofBody].sort() }
}

/** Null for a field without a value. */
function valuesOf(from: unknown, names: readonly string[]): (string | null)[] {
  const fields = (typeof from === 'object' && from !== null ? from : {}) as Record<string, unknown>
  return names.map((name) => {
    const value = fields[name]
    if (value === undefined || value === null || value === '') return null
    return typeof value === 'object' ? canonicalJson(value) : String(value)
  })
}

function textsOf(from: unknown, names: readonly string[]): string[] {
  return valuesOf(from, names).map((value) => value ?? '')
}

/** Undefined for an item without any of the values. */
function claim(place: string, values: readonly (string | null)[]): ItemClaim | undefined {
  if (values.every((value) => value === null)) return undefined
  const exact = digest(place, values)
  const folded = values.map((value) => value && foldIdentity(value))
  const isFolded = folded.some((value, index) => value !== values[index])
  return { exact, folded: isFolded ? digest(place, folded) : exact }
}

/** 16 bytes in base64url. */
function digest(place: string, values: readonly (string | null)[]): string {
  return hash('sha256', JSON.stringify([place, values]), 'base64url').slice(0, 22)
}
