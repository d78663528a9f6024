import { z } from 'zod'
import { column, columns, duration, findingMessage, whole } from './value-schemas.ts'

/** `timeout` says what the limit of time is about. */
export const limits = (timeout: string) =>
  z
    .strictObject({
      timeout: duration('100ms', '24h')
        .prefault('30s')
        .meta({ description: timeout, examples: ['30s'] }),
      fetchSize: whole(1, 100_000)
        .prefault(1_000)
        .meta({ description: 'records handled at a time', examples: [1000] }),
      maxRows: whole(1, 1_000_000_000)
        .optional()
        .meta({ description: 'more than that fails the poll', examples: [500000] }),
    })
    .transform(({ timeout, ...rest }) => ({ ...rest, timeoutMs: timeout }))
    .prefault({})
    .meta({
      description: 'limits of a read',
      examples: [{ fetchSize: 500 }],
    })

export const groupBy = () =>
  z
    .strictObject({
      children: z.record(column(), columns()).meta({
        description:
          'name of the list: the columns of its entries. Records of one key may differ in these only; else the item is not sent, and `/errors` names the column',
        examples: [{ cajas: ['caja', 'caja_nombre'] }],
      }),
    })
    .optional()
    .meta({
      description:
        'consecutive records of one key become one item with lists: whole or not at all. With a cursor, up to 100 changed items are read by their keys, more by a full read',
      examples: [{ children: { cajas: ['caja', 'caja_nombre'] } }],
    })

export const path = () =>
  z
    .string()
    .regex(/^[^.\p{Cc}]+(\.[^.\p{Cc}]+)*$/u, findingMessage({ code: 'MUST_BE_DOTTED_NAMES' }))
