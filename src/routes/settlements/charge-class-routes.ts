import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { signedPointFromCents } from '../../domain/money.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { setChargeClass } from '../../payments/settlements/update-net-amounts.ts'
import {
  listChargeClasses,
  listNotClassed,
} from '../../repositories/settlements/net-amount-queries.ts'
import { longestSpanMs } from '../field-schemas.ts'
import {
  ChargeClassBody,
  ChargeClassesResponse,
  ChargeClassResponse,
} from './settlement-schemas.ts'
import { mostNames } from './settlement-view.ts'

/** What the names of the provider's charges mean, for all clients. */
export const chargeClassRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'administer' },
      schema: {
        operationId: 'listChargeClasses',
        summary: 'What the names of the provider’s charges mean, and which no rule knows',
        response: { 200: ChargeClassesResponse },
      },
    },
    async () => {
      const { db } = deps.database
      const since = new Date(deps.now().getTime() - longestSpanMs)
      const classes = await listChargeClasses(db)
      const unknown = await listNotClassed(db, since, mostNames)
      return {
        classes: classes.map((rule) => ({ ...rule, entity: rule.entity || null })),
        not_classed: unknown.map((charge) => ({
          ...charge,
          amount: signedPointFromCents(charge.cents),
        })),
      }
    },
  )

  app.put(
    '',
    {
      config: { needs: 'administer' },
      schema: {
        operationId: 'setChargeClass',
        summary: 'Say what the provider’s charges of a name are',
        description:
          'For all clients; every net is computed again. A name as a whole counts before the beginning of one, and a longer beginning before a shorter one.',
        body: ChargeClassBody,
        response: { 200: ChargeClassResponse },
      },
    },
    async (request) => {
      const { name, entity, class: chargeClass } = request.body
      const { rule, isApplied } = await setChargeClass(
        deps,
        { name, entity: entity ?? '', class: chargeClass },
        actorOf(deps, request),
      )
      return {
        message: 'The rule for charges of this name is stored',
        ...rule,
        entity: rule.entity || null,
        applied: isApplied,
      }
    },
  )
}
