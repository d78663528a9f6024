import { ControlError } from './control-body.ts'
import { type FaultRule, readFaultRules } from './faults.ts'
import type { Context } from './sandbox-context.ts'

type Text = { en: string; es: string }

/** What can go wrong at a till, as a rule for `/_sandbox/faults`. It holds until it is ended, or for `count` calls. */
export type Situation = {
  id: string
  title: Text
  rule: Pick<FaultRule, 'kind'> & Partial<FaultRule>
  /** The till's request, and the first answer: status and code. */
  request: string
  answer: string
  outcome: 'charged' | 'not_charged' | 'unknown'
  /** What the till does then. */
  till: Text
}

const charge = { method: 'POST', path: '/v1/orders$' }
const cancel = { method: 'POST', path: '/cancel$' }
const refund = { method: 'POST', path: '/refund$' }
const paid = { path: 'order.processed' }

/** For the page `/_sandbox/` and docs/how-to/test-a-till.md; test/payment/situations.test.ts provokes each. */
export const situations: readonly Situation[] = [
  {
    id: 'charge_answer_lost',
    title: {
      en: 'The answer to the next charge is lost; the terminal shows it',
      es: 'La respuesta al próximo cobro se pierde; la terminal lo muestra',
    },
    rule: { ...charge, kind: 'drop_after', count: 1 },
    request: 'POST /orders',
    answer: '201',
    outcome: 'unknown',
    till: {
      en: 'nothing: the service asked Mercado Pago again, and there is one charge',
      es: 'nada: el servicio volvió a preguntar y hay un solo cobro',
    },
  },
  {
    id: 'charge_request_lost',
    title: {
      en: 'The next charge does not arrive',
      es: 'El próximo cobro no llega',
    },
    rule: { ...charge, kind: 'drop_before', count: 1 },
    request: 'POST /orders',
    answer: '201',
    outcome: 'unknown',
    till: {
      en: 'nothing: the service sent it again',
      es: 'nada: el servicio lo volvió a mandar',
    },
  },
  {
    id: 'charges_without_answer',
    title: {
      en: 'No charge is answered, though each one reaches its terminal',
      es: 'Ningún cobro tiene respuesta, aunque todos llegan a la terminal',
    },
    rule: { ...charge, kind: 'hang_after' },
    request: 'POST /orders',
    answer: '504 PROVIDER_TIMEOUT',
    outcome: 'unknown',
    till: {
      en: 'the same request again, with the same key',
      es: 'el mismo pedido otra vez, con la misma clave',
    },
  },
  {
    id: 'provider_down',
    title: {
      en: 'Mercado Pago answers every charge with 503',
      es: 'Mercado Pago contesta 503 a cada cobro',
    },
    rule: { ...charge, kind: 'status', status: 503 },
    request: 'POST /orders',
    answer: '504 PROVIDER_TIMEOUT',
    outcome: 'unknown',
    till: {
      en: 'the same request again, with the same key',
      es: 'el mismo pedido otra vez, con la misma clave',
    },
  },
  {
    id: 'provider_throttles',
    title: {
      en: 'Mercado Pago answers every charge with 429',
      es: 'Mercado Pago contesta 429 a cada cobro',
    },
    rule: { ...charge, kind: 'status', status: 429, retry_after: 2 },
    request: 'POST /orders',
    answer: '429 RATE_LIMITED',
    outcome: 'not_charged',
    till: {
      en: 'the same request after Retry-After',
      es: 'el mismo pedido después de Retry-After',
    },
  },
  {
    id: 'cancel_answer_lost',
    title: {
      en: 'The answer to the next cancel is lost',
      es: 'La respuesta a la próxima cancelación se pierde',
    },
    rule: { ...cancel, kind: 'drop_after', count: 1 },
    request: 'POST /orders/cancel',
    answer: '200',
    outcome: 'not_charged',
    till: {
      en: 'nothing: the service looked, and the order is canceled',
      es: 'nada: el servicio miró y la orden está cancelada',
    },
  },
  {
    id: 'refund_answer_lost',
    title: {
      en: 'The answer to the next refund is lost; the money went back',
      es: 'La respuesta a la próxima devolución se pierde; la plata volvió',
    },
    rule: { ...refund, kind: 'drop_after', count: 1 },
    request: 'POST /orders/refund',
    answer: '200',
    outcome: 'not_charged',
    till: {
      en: 'nothing: the money went back once',
      es: 'nada: la plata volvió una sola vez',
    },
  },
  {
    id: 'refund_takes_time',
    title: {
      en: 'The next refund takes a minute at Mercado Pago',
      es: 'La próxima devolución tarda un minuto en Mercado Pago',
    },
    rule: { ...refund, kind: 'refund_processing', delay_ms: 60_000, count: 1 },
    request: 'POST /orders/refund',
    answer: '200',
    outcome: 'unknown',
    till: {
      en: 'read the order until outcome is known: not_charged, or charged after a refund of a part',
      es: 'leer la orden hasta que outcome se conozca: not_charged, o charged tras una devolución parcial',
    },
  },
  {
    id: 'payment_not_notified',
    title: {
      en: 'No notification of a payment arrives',
      es: 'No llega ningún aviso de pago',
    },
    rule: { ...paid, kind: 'missing' },
    request: 'GET /orders/{orderId}',
    answer: '200',
    outcome: 'charged',
    till: {
      en: 'nothing: the service asks by itself',
      es: 'nada: el servicio pregunta solo',
    },
  },
  {
    id: 'payment_notified_twice',
    title: {
      en: 'Each notification of a payment arrives twice',
      es: 'Cada aviso de pago llega dos veces',
    },
    rule: { ...paid, kind: 'duplicate' },
    request: 'GET /orders/{orderId}',
    answer: '200',
    outcome: 'charged',
    till: {
      en: 'nothing: the payment counts once',
      es: 'nada: el pago cuenta una vez',
    },
  },
  {
    id: 'notification_forged',
    title: {
      en: 'Notifications of payments have a wrong signature',
      es: 'Los avisos de pago tienen una firma incorrecta',
    },
    rule: { ...paid, kind: 'bad_signature' },
    request: 'GET /orders/{orderId}',
    answer: '200',
    outcome: 'charged',
    till: {
      en: 'nothing: the service refuses them and asks by itself',
      es: 'nada: el servicio los rechaza y pregunta solo',
    },
  },
]

/** Adds the rule of a situation. Throws a control error for an unknown one. */
export function beginSituation(ctx: Context, id: string): void {
  const situation = situations.find((one) => one.id === id)
  if (!situation) throw new ControlError(404, `there is no situation ${id}`)
  ctx.faults.push(...readFaultRules([situation.rule]))
}
