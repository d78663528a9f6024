import { parseAmount, parseDuration } from './amounts.ts'
import { ApiError, apiError } from './errors.ts'
import { type Fields, isRecord, Problems } from './problems.ts'
import type { Order } from './rows.ts'

/** The content of a valid body of POST /v1/orders. Amount in cents, expiry in seconds. */
export type OrderRequest = Pick<
  Order,
  | 'externalReference'
  | 'description'
  | 'expirationTime'
  | 'terminalId'
  | 'printOnTerminal'
  | 'ticketNumber'
  | 'paymentMethodConfig'
  | 'integrationData'
  | 'taxes'
> & { amountCents: number; expirySeconds: number }

const defaultExpirySeconds = 900
const defaultTypes = ['credit_card', 'debit_card', 'qr', 'voucher_card']

/** Checks the body by the table of provider facts 2.1. Throws one 400 that names every error. */
export function readOrderBody(body: unknown, hasCents = true): OrderRequest {
  if (body === undefined) {
    throw apiError(400, 'required_properties', 'The request body is required.')
  }
  if (isRecord(body) && Object.keys(body).length === 0) {
    throw apiError(400, 'minimum_properties', 'The object has fewer properties than allowed.')
  }
  const problems = new Problems()
  const root = problems.record(
    body,
    'body',
    ['type', 'external_reference', 'transactions', 'config'],
    ['expiration_time', 'description', 'integration_data', 'taxes'],
  )
  problems.text(root, 'type', 'type', (text) => text === 'point')
  const externalReference = problems.text(
    root,
    'external_reference',
    'external_reference',
    (text) => /^[A-Za-z0-9_-]{1,64}$/.test(text),
  )
  const description = problems.text(
    root,
    'description',
    'description',
    (text) => [...text].length <= 150,
  )
  const expirationTime = problems.text(root, 'expiration_time', 'expiration_time', (text) => {
    const seconds = parseDuration(text)
    return seconds !== undefined && seconds >= 30 && seconds <= 10_800
  })
  const amountCents = readPayment(problems, root, hasCents)
  const config = readConfig(problems, root)
  const integrationData = readIntegration(problems, root)
  const taxes = readTaxes(problems, root)
  problems.throwIfAny()
  const seconds = expirationTime === undefined ? undefined : parseDuration(expirationTime)
  return {
    externalReference: externalReference ?? '',
    description: description ?? null,
    expirationTime: expirationTime ?? null,
    expirySeconds: seconds ?? defaultExpirySeconds,
    amountCents: amountCents ?? 0,
    ...config,
    integrationData,
    taxes,
  }
}

function has(fields: Fields | undefined, key: string): fields is Fields {
  return fields !== undefined && Object.hasOwn(fields, key)
}

function readPayment(
  problems: Problems,
  root: Fields | undefined,
  hasCents: boolean,
): number | undefined {
  if (!has(root, 'transactions')) return undefined
  const transactions = problems.record(root.transactions, 'transactions', ['payments'], [])
  if (!has(transactions, 'payments')) return undefined
  const payment = problems.single(transactions.payments, 'transactions.payments')
  if (payment === undefined) return undefined
  const path = 'transactions.payments[0]'
  const fields = problems.record(payment, path, ['amount'], [])
  const amount = problems.text(fields, 'amount', `${path}.amount`, (text) => {
    return parseAmount(text, hasCents) !== undefined
  })
  return amount === undefined ? undefined : parseAmount(amount)
}

function readConfig(problems: Problems, root: Fields | undefined) {
  const config = has(root, 'config')
    ? problems.record(root.config, 'config', ['point'], ['payment_method'])
    : undefined
  const point = has(config, 'point')
    ? problems.record(
        config.point,
        'config.point',
        ['terminal_id'],
        ['print_on_terminal', 'ticket_number'],
      )
    : undefined
  const method = has(config, 'payment_method')
    ? problems.record(
        config.payment_method,
        'config.payment_method',
        [],
        ['default_type', 'default_installments', 'installments_cost'],
      )
    : undefined
  const at = 'config.payment_method'
  const defaultType = problems.text(method, 'default_type', `${at}.default_type`, (text) =>
    defaultTypes.includes(text),
  )
  const installments = has(method, 'default_installments') ? method.default_installments : null
  if (installments !== null) {
    if (typeof installments !== 'number' || !Number.isInteger(installments)) {
      problems.add('property_type', `${at}.default_installments must be an integer`)
    } else if (installments < 1 || installments > 99 || defaultType !== 'credit_card') {
      problems.add('property_value', `${at}.default_installments goes with credit_card only`)
    }
  }
  const installmentsCost = problems.text(
    method,
    'installments_cost',
    `${at}.installments_cost`,
    (text) => text === 'seller' || text === 'buyer',
  )
  const print = problems.text(
    point,
    'print_on_terminal',
    'config.point.print_on_terminal',
    (text) => text === 'seller_ticket' || text === 'no_ticket',
  )
  return {
    terminalId: problems.text(point, 'terminal_id', 'config.point.terminal_id') ?? '',
    // The provider prints by default (provider facts 2.1).
    printOnTerminal: print ?? 'seller_ticket',
    ticketNumber: problems.text(point, 'ticket_number', 'config.point.ticket_number') ?? null,
    paymentMethodConfig:
      method === undefined
        ? null
        : {
            defaultType: defaultType ?? null,
            defaultInstallments: typeof installments === 'number' ? installments : null,
            installmentsCost: installmentsCost ?? null,
          },
  }
}

function readIntegration(problems: Problems, root: Fields | undefined): Order['integrationData'] {
  const data = has(root, 'integration_data')
    ? problems.record(
        root.integration_data,
        'integration_data',
        [],
        ['platform_id', 'integrator_id', 'sponsor'],
      )
    : undefined
  const sponsor = has(data, 'sponsor')
    ? problems.record(data.sponsor, 'integration_data.sponsor', ['id'], [])
    : undefined
  const text = (fields: Fields | undefined, key: string, path: string) =>
    problems.text(fields, key, `integration_data.${path}`) ?? null
  return {
    platformId: text(data, 'platform_id', 'platform_id'),
    integratorId: text(data, 'integrator_id', 'integrator_id'),
    sponsorId: text(sponsor, 'id', 'sponsor.id'),
  }
}

function readTaxes(problems: Problems, root: Fields | undefined): Order['taxes'] {
  if (!has(root, 'taxes')) return []
  if (!Array.isArray(root.taxes)) {
    problems.add('property_type', 'taxes must be an array')
    return []
  }
  return root.taxes.flatMap((item, index) => {
    const fields = problems.record(item, `taxes[${index}]`, ['payer_condition'], [])
    const value = problems.text(fields, 'payer_condition', `taxes[${index}].payer_condition`)
    return value === undefined ? [] : [{ payerCondition: value }]
  })
}

/**
 * Reads the body of a refund: none or `{}` for everything, else exactly one payment with its amount in cents
 * (provider facts 2.4).
 */
export function readRefundBody(
  body: unknown,
  hasCents: boolean,
): { paymentId: string; amountCents: number } | null {
  if (body === undefined || (isRecord(body) && Object.keys(body).length === 0)) return null
  const problems = new Problems()
  const root = problems.record(body, 'body', ['transactions'], [])
  const item = has(root, 'transactions')
    ? problems.single(root.transactions, 'transactions')
    : undefined
  const fields =
    item === undefined ? undefined : problems.record(item, 'transactions[0]', ['id', 'amount'], [])
  const paymentId = problems.text(fields, 'id', 'transactions[0].id')
  const amount = problems.text(fields, 'amount', 'transactions[0].amount', (text) => {
    return parseAmount(text, hasCents) !== undefined
  })
  problems.throwIfAny()
  const amountCents = amount === undefined ? undefined : parseAmount(amount)
  if (paymentId === undefined || amountCents === undefined) {
    throw new ApiError(400, { code: 'property_value', message: 'The refund is not valid.' })
  }
  return { paymentId, amountCents }
}
