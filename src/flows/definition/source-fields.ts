import { z } from 'zod'
import { column, columns, duration, findingMessage, whole } from './value-schemas.ts'

export const limits = () =>
  z
    .strictObject({
      timeout: duration('100ms', '24h').prefault('30s').describe('of a statement or a request'),
      fetchSize: whole(1, 100_000).prefault(1_000).describe('records handled at a time'),
      maxRows: whole(1, 1_000_000_000)
        .optional()
        .describe('more than that fails the poll; without it there is no limit'),
    })
    .transform(({ timeout, ...rest }) => ({ ...rest, timeoutMs: timeout }))
    .prefault({})

export const groupBy = () =>
  z
    .strictObject({
      children: z
        .record(column(), columns())
        .describe('name of the list in the item: the columns of its entries'),
    })
    .optional()
    .describe('consecutive records of one key become one item with lists')

export const path = () =>
  z
    .string()
    .regex(/^[^.\p{Cc}]+(\.[^.\p{Cc}]+)*$/u, findingMessage({ code: 'MUST_BE_DOTTED_NAMES' }))
    .describe(
      'where the list of items stands: names joined by dots, such as data.items (without it the answer is the list); with XML a path such as /Lista/Articulo',
    )
