import { t, word } from '../shared/i18n.js'
import { dayOf } from '../shared/shop-clock.js'
import { csvAmount, csvLine, saveCsv } from './csv-file.js'
import { pointOfCents, sumsOf } from './money.js'

const pageLimit = 200
/** Beyond it somebody wants a report, not a look, and a page that holds it all becomes slow. */
export const mostRows = 50_000

/**
 * Every order of a question as a file for a spreadsheet, newest first. `onProgress(rows)` hears how far it is.
 * Answers `{ rows, total }`; `rows` may be fewer.
 */
export async function downloadOrders(app, question, onProgress) {
  const columns = columnsOf()
  const lines = [csvLine(columns.map(([title]) => title))]
  let total = 0
  let cursor
  do {
    const answer = await app.getOrders({ ...question, limit: pageLimit, cursor })
    total = Math.max(total, answer.total)
    for (const order of answer.orders) lines.push(csvLine(columns.map(([, of]) => of(order))))
    onProgress(lines.length - 1)
    cursor = answer.next_cursor
  } while (cursor && lines.length <= mostRows)
  saveCsv(lines, `tillbridge-${dayOf()}.csv`)
  return { rows: lines.length - 1, total }
}

/** Title and value of each column, with the decimal mark that the reader's spreadsheet takes. */
function columnsOf() {
  return [
    [t('order.created'), (order) => order.created_at],
    [t('order.reference'), (order) => order.external_reference],
    [t('order.ticket'), (order) => order.ticket_number],
    [t('order.description'), (order) => order.description],
    [t('order.status'), (order) => word('status', order.status)],
    [t('csv.standing'), (order) => word('standing', order.standing)],
    [t('order.amount'), (order) => csvAmount(order.amount)],
    [t('payments.paid'), (order) => csvAmount(pointOfCents(sumsOf(order).paid))],
    [t('refunds.title'), (order) => csvAmount(pointOfCents(sumsOf(order).refunded))],
    [t('order.method'), (order) => methodWord(order)],
    [t('order.store'), (order) => order.sucursal_id],
    [t('order.box'), (order) => order.caja_id],
    [t('order.client'), (order) => order.client],
    [t('order.id'), (order) => order.order_id],
    [t('order.providerId'), (order) => order.mp_order_id],
  ]
}

function methodWord({ payments }) {
  const type = payments.at(-1)?.payment_method.type
  return type ? word('method', type) : ''
}
