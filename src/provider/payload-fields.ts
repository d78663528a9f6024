import { z } from 'zod'

/**
 * The fields of the provider's payloads that are used. Ids come as numbers and as strings, short forms lack members,
 * unknown members are dropped (card digits among them). Amounts are strict: one that cannot be read makes the whole
 * answer invalid. Fields that only describe a payment become null instead.
 */
export const MpId = z.union([z.string().min(1), z.number().int()]).transform(String)

export const MpNote = z.union([z.string(), z.number()]).transform(String).nullish().catch(null)

export const MpNumber = z
  .union([z.number(), z.string().regex(/^[0-9]{1,15}$/)])
  .transform(Number)
  .pipe(z.number().int().nonnegative())

/** Reads each entry of a list by itself; returns those that can be read and those that cannot. */
export function readEntries<Item>(
  schema: z.ZodType<Item>,
  entries: readonly unknown[],
): { items: Item[]; unreadable: unknown[] } {
  const items: Item[] = []
  const unreadable: unknown[] = []
  for (const entry of entries) {
    const parsed = schema.safeParse(entry)
    if (parsed.success) items.push(parsed.data)
    else unreadable.push(entry)
  }
  return { items, unreadable }
}

/** For answers whose body is not used. */
export const MpAnything = z.unknown()

/** A date; null when it cannot be read. */
export function dateFrom(text: string | null | undefined): Date | null {
  const ms = Date.parse(text ?? '')
  return Number.isNaN(ms) ? null : new Date(ms)
}
