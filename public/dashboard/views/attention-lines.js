import { clock, name } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { nameOfBox } from '../box-names.js'
import { helpWith, helpWithBox, linkButton } from '../help.js'

/** As many of one cause are told one by one; more stand together. */
const singly = 3
/** Causes that lie with the provider or the client's connection, which tells them for all of its boxes. */
const ofProvider = new Set(['provider_failing', 'throttled'])
const ofConnection = new Set([
  'connection_lost',
  'connection_expiring',
  'not_connected',
  'account_unpinned',
])

const isTold = ({ state }) => state === 'attention' || state === 'down'
const tones = { down: 'bad', attention: 'warn' }

/**
 * What somebody should look at now, worst first: `{key, tone, place, text, since, help, parts}`. `parts` are the things that a
 * line stands for when it is about many.
 */
export function attentionLines(app, overview) {
  const names = nameOfBox(app, overview.boxes)
  const boxes = overview.boxes.map(({ client, caja_id, health }) => ({
    client,
    caja_id,
    ...health,
  }))
  const fleet = { ...overview.fleet, boxes }
  const lines = [
    ...providerLines(app, fleet),
    ...connectionLines(app, fleet),
    ...boxLines(app, fleet, names),
    ...flowLines(app, fleet),
    ...orderLines(app, overview, fleet, names),
  ]
  return lines.toSorted((a, b) => rank[a.tone] - rank[b.tone])
}

const rank = { bad: 0, warn: 1 }

/** How many boxes a trouble that lies elsewhere keeps from charging. */
function touched(boxes) {
  return boxes.length === 0 ? '' : ` ${count('attention.touched', boxes.length)}`
}

function providerLines(app, { boxes }) {
  const failing = boxes.filter((box) => isTold(box) && ofProvider.has(box.cause))
  return [...Map.groupBy(failing, ({ cause }) => cause)].map(([cause, all]) => {
    const worst = all.find(({ state }) => state === 'down') ?? all[0]
    return {
      key: `provider ${cause}`,
      tone: tones[worst.state],
      place: t('attention.provider'),
      text: `${worst.message}${touched(all)}`,
      since: worst.since,
      help: helpWith(app, worst),
    }
  })
}

function connectionLines(app, { connections, boxes }) {
  return grouped(connections.filter(isTold), ({ cause }) => cause, 'client').map((group) => ({
    key: `connection ${group.key}`,
    tone: tones[group.first.state],
    place: group.isOne ? name(group.first.client) : count('attention.clients', group.all.length),
    text: group.isOne
      ? group.first.message +
        touched(
          boxes.filter((box) => box.client === group.first.client && ofConnection.has(box.cause)),
        )
      : word('cause', group.first.cause),
    since: group.isOne ? group.first.since : null,
    help: group.isOne
      ? helpWith(app, group.first)
      : linkButton(app.link('clients'), t('nav.clients')),
    parts: group.isOne
      ? undefined
      : group.all.map((one) => ({
          key: one.client,
          place: name(one.client),
          text: one.message,
          help: helpWith(app, one),
        })),
  }))
}

function boxLines(app, { boxes }, names) {
  const own = boxes.filter(
    (box) => isTold(box) && !ofProvider.has(box.cause) && !ofConnection.has(box.cause),
  )
  return grouped(own, ({ client, cause }) => `${client} ${cause}`, 'caja_id').map((group) => {
    const lineOf = (box) => ({
      key: `box ${box.client} ${box.caja_id}`,
      tone: tones[box.state],
      place: names.placeOf(box),
      text: box.message,
      since: box.since,
      help: helpWithBox(app, box, names.nameOf(box)),
    })
    if (group.isOne) return lineOf(group.first)
    const worst = group.all.find(({ state }) => state === 'down') ?? group.first
    return {
      key: `boxes ${group.key}`,
      tone: tones[worst.state],
      place: html`${app.isAdmin && app.client === undefined ? html`${name(worst.client)} · ` : nothing}${count('attention.boxes', group.all.length)}`,
      text: word('cause', worst.cause),
      since: null,
      parts: group.all.map(lineOf),
    }
  })
}

function flowLines(app, { flows }) {
  const targets = flows.flatMap(({ flow, destinations }) =>
    destinations.filter(isTold).map((one) => ({ ...one, flow })),
  )
  // A flow that is no better than its destinations is told by them.
  const own = flows.filter(
    (flow) =>
      isTold(flow) && !flow.destinations.some((one) => isTold(one) && one.cause === flow.cause),
  )
  const lineOf = (one) => ({
    key: `flow ${one.flow} ${one.name ?? ''}`,
    tone: tones[one.state],
    place: one.name === undefined ? name(one.flow) : html`${name(one.flow)} → ${name(one.name)}`,
    text: one.message,
    since: one.since,
    help: helpWith(app, one),
  })
  const tell = (list, key) =>
    grouped(list, ({ cause }) => cause, 'flow').map((group) =>
      group.isOne
        ? lineOf(group.first)
        : {
            key: `${key} ${group.key}`,
            tone: tones[group.first.state],
            place: count(key, group.all.length),
            text: word('cause', group.first.cause),
            since: null,
            parts: group.all.map(lineOf),
          },
    )
  return [...tell(targets, 'attention.destinations'), ...tell(own, 'attention.flows')]
}

/** Orders that need somebody, unless their box tells of them already. */
function orderLines(app, statistics, { boxes }, names) {
  const told = new Set(boxes.filter(isTold).map((box) => box.order_id))
  const orderLine = (order, text, help) => ({
    key: order.order_id,
    tone: 'warn',
    place: names.placeOf(order),
    text,
    since: order.created_at ?? null,
    help: linkButton(app.orderLink(order), t(help)),
  })
  const linesOf = (orders, key, help) =>
    orders
      .filter(({ order_id: id }) => !told.has(id))
      .map((order) => orderLine(order, t(key, { reference: order.external_reference }), help))
  const doubts = linesOf(statistics.in_doubt, 'attention.doubt', 'help.settle_doubt')
  const late = linesOf(statistics.paid_after_close, 'attention.lateOne', 'help.look_at_order')
  const counted = (key, number, help) =>
    number > 0
      ? [{ key, tone: 'warn', place: '', text: count(key, number), since: null, help }]
      : []
  const waiting =
    statistics.action_required - boxes.filter(({ cause }) => cause === 'terminal_waits').length
  return [
    ...doubts,
    ...counted(
      'attention.actionRequired',
      waiting,
      linkButton(
        app.link('orders', undefined, { status: 'action_required' }),
        t('attention.help.orders'),
      ),
    ),
    ...late,
    ...counted(
      'attention.orphans',
      statistics.orphans,
      linkButton(app.link('closings', 'orphans'), t('attention.help.orphans')),
    ),
    ...counted(
      'attention.chargebacks',
      statistics.chargebacks.undecided,
      linkButton(app.link('closings', 'chargebacks'), t('attention.help.chargebacks')),
    ),
    ...counted(
      'attention.webhooks',
      statistics.webhooks.failed,
      app.isAdmin && linkButton(app.link('webhooks'), t('help.check_webhook_address')),
    ),
  ]
}

/** Groups of things with the same key; those of few are split again into groups of one. */
function grouped(list, keyOf, nameOf) {
  return [...Map.groupBy(list, keyOf)].flatMap(([key, all]) =>
    all.length > singly
      ? [{ key, all, first: all[0], isOne: false }]
      : all.map((one) => ({
          key: `${key} ${one[nameOf]} ${one.name ?? ''}`,
          all,
          first: one,
          isOne: true,
        })),
  )
}

/** Since when, in a few words. */
export function sinceText(since) {
  return since ? t('attention.since', { time: clock(since) }) : ''
}
