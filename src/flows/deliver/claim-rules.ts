import { hash } from 'node:crypto'
import { canonicalJson } from '../../domain/json.ts'
import type { Claimant, ItemClaim } from '../../repositories/flows/claims.ts'
import { destinationIdentity } from '../definition/identity.ts'
import type { DestinationDefinition, HttpDefinition, Remembered } from '../types.ts'
import { failure, type Outcome, type Tried } from './retry-rules.ts'

/**
 * The identity of an item at its destination. Undefined for a destination that does not show it: then nothing says whether two
 * items are the same thing there.
 */
export type ClaimRule = {
  /** A change of an item leaves its identity as it is. */
  isFixed: boolean
  claimOf(body: unknown, remembered: Remembered | undefined): ItemClaim | undefined
}

/**
 * A table is known by the values of `upsertKey`; stores and boxes by `external_id`; an item at an HTTP receiver by the values
 * of the body, or of what is remembered, that its delete request names. The item's key alone is no such identity: no two items
 * of a flow have one.
 */
export function claimRuleOf(definition: DestinationDefinition): ClaimRule | undefined {
  const place = destinationIdentity(definition)
  switch (definition.type) {
    case 'sql': {
      const { upsertKey } = definition
      return { isFixed: false, claimOf: (body) => claim(place, valuesOf(body, upsertKey)) }
    }
    case 'http': {
      const { remembered, ofBody } = namedByDelete(definition)
      const fresh = (definition.find ?? []).flatMap((one) =>
        one.fresh ? Object.keys(one.remember ?? {}) : [],
      )
      // A value that is read for each request is not known of other items.
      const isKept = !remembered.some((name) => fresh.includes(name))
      if (!isKept || remembered.length + ofBody.length === 0) return undefined
      return {
        isFixed: ofBody.length === 0,
        claimOf: (body, known) => {
          const values = [...valuesOf(known, remembered), ...valuesOf(body, ofBody)]
          // Of values that some items do not have, those that an item has are its identity.
          const isKnown = remembered.length === 0 || remembered.some((name) => known?.[name])
          return isKnown ? claim(place, values) : undefined
        },
      }
    }
    case 'file':
      return undefined
    default:
      return { isFixed: false, claimOf: (body) => claim(place, valuesOf(body, ['external_id'])) }
  }
}

/**
 * Of a delete whose item's identity another living item has. With exactly the same one the delete ends: it would delete that
 * item. Where only the receiver can tell whether they are the same, it fails, so that a person decides.
 */
export function claimedOutcome(tried: Tried, attempts: number, claimant: Claimant): Outcome {
  const { pk, flow, isExact } = claimant
  const data = { pk, flow }
  if (isExact)
    return { kind: 'skipped', ...tried, why: { code: 'DELETE_CLAIMED', data }, forget: true }
  return { kind: 'final', ...tried, failure: failure({ code: 'DELETE_ALIKE', data }, attempts) }
}

/** The names of remembered values and of the body's fields in the address and the body of the delete request. */
function namedByDelete({ delete: remove }: HttpDefinition) {
  const text = `${remove?.url.template ?? ''}\n${remove?.body ?? ''}`
  const named = (from: string) => {
    const found = text.matchAll(new RegExp(String.raw`\b${from}\.(\w+)`, 'g'))
    return [...new Set([...found].map(([, name = '']) => name))].sort()
  }
  return { remembered: named('remembered'), ofBody: named('body') }
}

/** Null for a field without a value. */
function valuesOf(from: unknown, names: readonly string[]): (string | null)[] {
  const fields = (typeof from === 'object' && from !== null ? from : {}) as Record<string, unknown>
  return names.map((name) => {
    const value = fields[name]
    return value === undefined || value === null || value === '' ? null : String(value)
  })
}

/** Undefined for an item without any of the values. */
function claim(place: string, values: readonly (string | null)[]): ItemClaim | undefined {
  if (values.every((value) => value === null)) return undefined
  return {
    exact: digest(place, values),
    folded: digest(
      place,
      values.map((value) => value && folded(value)),
    ),
  }
}

/** 16 bytes in base64url. */
function digest(place: string, values: readonly (string | null)[]): string {
  return hash('sha256', canonicalJson([place, values]), 'base64url').slice(0, 22)
}

const number = /^[+-]?\d+(?:\.\d+)?$/

/** Receivers may take two texts for one that differ in case, blanks, width or form of their letters, or in zeros of a number. */
function folded(text: string): string {
  const plain = text.normalize('NFKC').trim().toLowerCase()
  if (!number.test(plain)) return plain
  const [whole = '', decimals = ''] = plain.replace(/^\+/, '').split('.')
  const digits = whole.replace(/^(-?)0+(?=\d)/, '$1')
  const rest = decimals.replace(/0+$/, '')
  return rest === '' ? digits : `${digits}.${rest}`
}
