import { z } from 'zod'

/** Entries of one push, of both kinds together. */
const mostEntries = 1_000

const pk = z.string().min(1).max(1024)

export const PushBody = z
  .strictObject({
    items: z
      .array(z.record(z.string(), z.unknown()))
      .max(mostEntries)
      .default([])
      .describe('Records as the source of the flow gives them, each with its key'),
    deletes: z
      .array(pk)
      .max(mostEntries)
      .default([])
      .describe('Keys of items that are gone; for flows with deletes.mode delete'),
  })
  .refine(({ items, deletes }) => {
    const entries = items.length + deletes.length
    return entries >= 1 && entries <= mostEntries
  }, `must have 1 to ${mostEntries} items and deletes together`)
  .meta({
    example: {
      items: [{ codigo: 'A-100', descripcion: 'Yerba 1 kg', precio: 4200.5 }],
      deletes: [],
    },
  })

const Answer = z.object({
  pk: z.string().nullable().describe('null: the record has no usable key'),
  status: z
    .enum(['new', 'changed', 'unchanged', 'skipped', 'deleted', 'refused'])
    .describe(
      'new, changed and deleted: it is owed to the destinations; unchanged: they have it or are owed it; skipped: by item.filter',
    ),
  reason: z.string().optional().describe('Why it was skipped or refused'),
  retry: z.literal(true).optional().describe('Refused for what may pass: push it again'),
})

export const PushedResponse = z
  .object({
    name: z.string(),
    changes: z.number().describe('Items that are owed to the destinations by this push'),
    items: z.array(Answer).describe('What became of each, in their order'),
    deletes: z.array(Answer),
  })
  .meta({
    id: 'ItemsPushed',
    example: {
      name: 'articulos',
      changes: 1,
      items: [{ pk: 'A-100', status: 'changed' }],
      deletes: [],
    },
  })
