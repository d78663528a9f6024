import type { Destination } from '../types.ts'

/** With how many others an item goes in one request. */
export type Company = {
  most(pk: string, kind: 'upsert' | 'delete'): number
  /** They were refused together: each goes with fewer others next time. */
  apart(pks: readonly string[]): void
  /** The batch cannot have it, whatever it has besides: it goes alone next time. */
  alone(pk: string): void
  /** What became of them is known. */
  together(pks: readonly string[]): void
}

/** Of a thousand that are refused because of one, it stands alone after three times. */
const shrinkBy = 8

/**
 * Lets batches that are refused as a whole become smaller, until the items that spoil them stand alone. It forgets with the
 * process, and then begins anew: no attempt counts before an item has been answered for.
 */
export function createCompany({ batches }: Pick<Destination, 'batches'>): Company {
  const limits = new Map<string, number>()
  return {
    most: (pk, kind) =>
      Math.min(limits.get(pk) ?? Number.POSITIVE_INFINITY, batches?.most(kind) ?? 1),
    apart: (pks) => {
      const most = Math.max(1, Math.floor(pks.length / shrinkBy))
      for (const pk of pks) limits.set(pk, most)
    },
    alone: (pk) => {
      limits.set(pk, 1)
    },
    together: (pks) => {
      for (const pk of pks) limits.delete(pk)
    },
  }
}
