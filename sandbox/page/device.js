import { money, say } from './texts.js'

const methods = ['credit_card', 'debit_card', 'qr']
const reasons = [
  'rejected_by_issuer',
  'insufficient_amount',
  'card_disabled',
  'required_call_for_authorize',
  'high_risk',
  'bad_filled_card_data',
  'invalid_installments',
  'max_attempts_exceeded',
  'processing_error',
]

/** A finished charge stays on the screen this long. */
const resultMs = 30_000

export function make(tag, className, ...children) {
  const element = document.createElement(tag)
  if (className) element.className = className
  element.append(...children)
  return element
}

function button(className, onClick) {
  const element = make('button', className)
  element.type = 'button'
  element.addEventListener('click', onClick)
  return element
}

/**
 * One terminal as the buyer sees it. The elements are made once and only their texts change, so that focus and an open
 * list survive the poll. `act(orderId, body)` does what a button says.
 */
export function createDevice(act) {
  let order = null
  const send = (body) => order && act(order.id, body)

  const place = make('h2', 'place')
  const mode = make('span', 'mode')
  const headline = make('p', 'headline')
  const amount = make('p', 'amount')
  const reference = make('p', 'reference')
  const help = make('p', 'help')
  const timer = make('p', 'timer')
  const screen = make('div', 'screen', headline, amount, reference, help, timer)
  headline.setAttribute('role', 'status')

  const show = button('key show', () => send({ do: 'fetch' }))
  const pay = methods.map((type) => {
    const element = button(`key card ${type}`, () => send({ do: 'pay', payment_method_type: type }))
    return { type, element }
  })
  const payRow = make('div', 'keys three', ...pay.map(({ element }) => element))
  payRow.setAttribute('role', 'group')

  const select = make('select')
  const options = reasons.map((value) => {
    const option = make('option')
    option.value = value
    return option
  })
  select.append(...options)
  const decline = button('key', () => send({ do: 'decline', status_detail: select.value }))
  const declineRow = make('div', 'keys reason', select, decline)

  const cancel = button('key red', () => send({ do: 'cancel' }))
  const hold = button('key yellow', () => send({ do: 'hold' }))
  const expire = button('key', () => send({ do: 'expire' }))
  const lastRow = make('div', 'keys three', cancel, hold, expire)

  const pad = make('div', 'pad', show, payRow, declineRow, lastRow)
  const serial = make('p', 'serial')
  const element = make('article', 'device', make('div', 'top', place, mode), screen, pad, serial)

  function translate() {
    show.textContent = say('show')
    for (const each of pay) each.element.textContent = say(each.type)
    payRow.setAttribute('aria-label', say('pay'))
    select.setAttribute('aria-label', say('reason'))
    for (const option of options) option.textContent = say(option.value)
    decline.textContent = say('decline')
    cancel.textContent = say('cancel')
    hold.textContent = say('hold')
    expire.textContent = say('expire')
  }

  function update(terminal, now) {
    order = terminal.order
    const box = terminal.pos
    place.textContent = box ? [box.store_name, box.name].filter(Boolean).join(' · ') : say('noBox')
    mode.textContent = terminal.operating_mode
    serial.textContent = terminal.id
    element.setAttribute('aria-label', place.textContent)

    const face = faceOf(terminal, now)
    element.dataset.face = face.kind
    setText(headline, face.headline)
    const sum = face.charge ? money(order.transactions.payments[0].amount) : ''
    setText(amount, sum)
    amount.classList.toggle('long', sum.length > 12)
    amount.classList.toggle('longer', sum.length > 17)
    setText(reference, face.charge ? say('reference', { text: order.external_reference }) : '')
    setText(help, face.help)
    setText(timer, face.open ? say('left', { time: timeLeft(terminal.expires_at, now) }) : '')

    const here = face.kind === 'at_terminal'
    // In the place of the cards, so that nothing jumps when the terminal fetches the charge.
    show.hidden = face.kind !== 'created' || terminal.operating_mode !== 'PDV'
    payRow.hidden = !show.hidden
    for (const each of [...pay.map((one) => one.element), select, decline, cancel, hold]) {
      each.disabled = !here
    }
    expire.disabled = !face.open
  }

  translate()
  return { element, update, translate }
}

/** What the screen shows: the open charge, a fresh result, or that it waits. */
function faceOf(terminal, now) {
  const { order } = terminal
  const open = terminal.expires_at !== null
  const fresh = order && now - Date.parse(order.last_updated_date) < resultMs
  if (!open && !fresh) {
    const kind = terminal.operating_mode === 'PDV' ? 'idle' : 'standalone'
    return { kind, headline: say(kind), help: say(`${kind}Help`), charge: false, open }
  }
  const payment = order.transactions.payments[0]
  const part = order.status_detail === 'partially_refunded'
  const kind = order.status
  return {
    kind,
    headline: say(part ? order.status_detail : kind),
    help: helpOf(order, payment, terminal),
    charge: true,
    open,
  }
}

function helpOf(order, payment, terminal) {
  if (payment.status_detail === 'cancellation_requested') return say('cancellation_requested')
  switch (order.status) {
    case 'created':
      return say(terminal.operating_mode === 'PDV' ? 'createdHelp' : 'standaloneHelp')
    case 'at_terminal':
    case 'action_required':
      return say(`${order.status}Help`)
    case 'processed':
    case 'refunded': {
      const { type, id } = payment.payment_method
      return `${say(type)} · ${id}`
    }
    case 'failed':
    case 'canceled':
      return say(payment.status_detail)
    default:
      return ''
  }
}

function timeLeft(until, now) {
  const seconds = Math.max(0, Math.round((Date.parse(until) - now) / 1000))
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

/** Writes only what changed: a live region must not repeat itself every second. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text
  element.hidden = text === ''
}
