import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { AppError } from '../../errors/app-error.ts'
import { toWire } from '../api/api-model.ts'
import { ItemParams, PkParams } from '../api/control-schemas.ts'
import { FoundItemResponse, ItemResponse } from '../api/item-schemas.ts'
import { givenKey } from '../item/item.ts'
import { type ControlDeps, languageOf } from './control-deps.ts'

/** The key of an item in a path. It may be empty (`/reset/f/`): that must never become the whole flow. */
export function pkOf(params: { pk: string }): string {
  if (params.pk === '') throw new AppError('NOT_FOUND')
  return givenKey(params.pk)
}

/** Where an item is, in one flow and in all. */
export const itemRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.get(
    '/flow/:name/items/:pk',
    {
      ...app.forList,
      config: { needs: 'see_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'readItem',
        summary: 'Where one item is, how it changed, and what each destination answered',
        tags: ['Monitoring'],
        params: ItemParams,
        response: { 200: ItemResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const pk = pkOf(request.params)
      const item = await flows.item(name, pk)
      return toWire(ItemResponse, { name, pk, ...item }, languageOf(request))
    },
  )

  app.get(
    '/flows/items/:pk',
    {
      ...app.forList,
      config: { needs: 'see_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'findItem',
        summary: 'The flows that know an item, and where it is in each',
        tags: ['Monitoring'],
        params: PkParams,
        response: { 200: FoundItemResponse },
      },
    },
    async (request) => {
      const pk = pkOf(request.params)
      const found = await flows.findItem(pk)
      return toWire(FoundItemResponse, { pk, flows: found }, languageOf(request))
    },
  )
}
