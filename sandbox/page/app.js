import { createDevice, make } from './device.js'
import { clockTime, money, say, switchLanguage, translatePage } from './texts.js'

const pollMs = 1000
const noticeMs = 6000
const byId = (id) => document.getElementById(id)
const devices = new Map()
let state = null
let noticeTimer

async function ask(method, path, body) {
  const response = await fetch(path, {
    method,
    ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  const answer = await response.json()
  if (!response.ok) throw new Error(answer.error ?? String(response.status))
  return answer
}

async function refresh() {
  try {
    state = await ask('GET', '/_sandbox/state')
    show()
    setLink(true)
  } catch {
    setLink(false)
  }
}

async function change(path, body) {
  try {
    await ask('POST', path, body)
  } catch (error) {
    notify(error.message)
  }
  await refresh()
}

function notify(text) {
  const notice = byId('notice')
  notice.textContent = text
  notice.hidden = false
  clearTimeout(noticeTimer)
  noticeTimer = setTimeout(() => {
    notice.hidden = true
  }, noticeMs)
}

function setLink(up) {
  byId('link').classList.toggle('down', !up)
  const text = say(up ? 'live' : 'lost')
  if (byId('link-text').textContent !== text) byId('link-text').textContent = text
}

function show() {
  showDevices()
  showForm()
  showHistory()
}

function showDevices() {
  const now = Date.parse(state.now)
  const seen = new Set()
  for (const terminal of state.terminals) {
    seen.add(terminal.id)
    let device = devices.get(terminal.id)
    if (!device) {
      const act = (id, body) => change(`/_sandbox/orders/${encodeURIComponent(id)}/act`, body)
      device = createDevice(act)
      devices.set(terminal.id, device)
      byId('devices').append(device.element)
    }
    device.update(terminal, now)
  }
  for (const [id, device] of devices) {
    if (seen.has(id)) continue
    device.element.remove()
    devices.delete(id)
  }
}

function showForm() {
  const none = state.pos.length === 0
  byId('add-form').hidden = none
  byId('add-steps').hidden = !none
  byId('add-help').textContent = say(none ? 'addNone' : 'addHelp')
  byId('add-title').textContent = say(state.terminals.length === 0 ? 'addFirst' : 'addTitle')
  const select = byId('add-box')
  const wanted = state.pos.map((box) => ({ value: String(box.id), text: boxName(box) }))
  const same =
    wanted.length === select.options.length &&
    wanted.every(({ value, text }, i) => {
      return select.options[i].value === value && select.options[i].textContent === text
    })
  if (same) return
  const chosen = select.value
  select.replaceChildren(
    ...wanted.map(({ value, text }) => {
      const option = make('option', '', text)
      option.value = value
      return option
    }),
  )
  if (wanted.some(({ value }) => value === chosen)) select.value = chosen
}

function boxName(box) {
  const code = box.external_id && box.external_id !== box.name ? ` (${box.external_id})` : ''
  return `${box.store_name ?? ''} · ${box.name}${code}`
}

function showHistory() {
  byId('history').hidden = state.orders.length === 0
  const boxes = new Map(state.terminals.map(({ id, pos }) => [id, pos?.name ?? id]))
  byId('orders').replaceChildren(
    ...state.orders.map((order) => {
      const part = order.status_detail === 'partially_refunded'
      const status = make('span', 'status', say(part ? order.status_detail : order.status))
      status.dataset.status = order.status
      const payment = order.transactions.payments[0]
      return make(
        'li',
        '',
        make('span', 'when', clockTime(order.created_date)),
        make(
          'span',
          'what',
          `${boxes.get(order.config.point.terminal_id) ?? ''} · ${order.external_reference}`,
        ),
        make('span', 'sum', money(payment.amount)),
        status,
      )
    }),
  )
}

function translate() {
  translatePage()
  byId('language').textContent = say('other')
  byId('language').lang = say('other') === 'English' ? 'en' : 'es'
  byId('devices').setAttribute('aria-label', say('devices'))
  for (const device of devices.values()) device.translate()
  if (state) show()
}

byId('language').addEventListener('click', () => {
  switchLanguage()
  translate()
  setLink(!byId('link').classList.contains('down'))
})
byId('add-form').addEventListener('submit', (event) => {
  event.preventDefault()
  void change('/_sandbox/terminals', { pos_id: byId('add-box').value })
})

translate()
for (;;) {
  await refresh()
  await new Promise((resolve) => setTimeout(resolve, pollMs))
}
