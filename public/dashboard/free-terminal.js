import { openDialog } from '../shared/dialog.js'
import { errorLines } from '../shared/errors.js'
import { duration, name } from '../shared/format.js'
import { t, word } from '../shared/i18n.js'
import { html, nothing } from '../shared/lit.js'
import { badge, facts, field, loading, note } from '../shared/parts.js'
import { money } from './amounts.js'
import { orderTone } from './views/order-columns.js'

const tones = { clear: 'plain', freed: 'good', would_be_freed: 'warn', held: 'bad' }
const doable = new Set(['cancel', 'ask_device', 'resolve'])

/**
 * Frees a terminal that stays busy: first says which orders hold it and what would be done, then asks for a reason, does
 * it, and says what came of it. The service reads every order at the provider before it answers.
 */
export function openFreeing(app, client, terminalId) {
  const state = { answer: undefined, failure: undefined, reason: '', complaint: false }
  const dialog = openDialog((self) => render(self))
  void send(true)

  async function send(isDryRun) {
    Object.assign(state, { failure: undefined, complaint: false })
    dialog.busy = true
    dialog.redraw()
    try {
      state.answer = await app.api.post(`/admin/terminals/${encodeURIComponent(terminalId)}/free`, {
        body: { client, dry_run: isDryRun, reason: state.reason.trim() || t('free.looking') },
      })
      if (!isDryRun) app.reload()
    } catch (error) {
      state.failure = error
    }
    dialog.busy = false
    dialog.redraw()
  }

  function submit(event) {
    event.preventDefault()
    if (dialog.busy) return
    state.complaint = state.reason.trim() === ''
    if (state.complaint) return dialog.redraw()
    void send(false)
  }

  function render(self) {
    const { answer, failure } = state
    const canAct = answer?.dry_run && answer.orders.some(({ action }) => doable.has(action))
    const bad = (content) => html`<div class="note bad"><div>${content}</div></div>`
    return html`<form class="ask" @submit=${submit}>
      <h2 id="dialog-title">${t('free.title')}</h2>
      ${facts([
        [t('order.client'), name(client)],
        [t('order.terminal'), name(terminalId)],
      ])}
      <div role="status" class="stack">${self.busy && !answer ? loading() : nothing}${answer ? result(answer) : nothing}</div>
      ${
        canAct
          ? field(
              t('free.reason'),
              html`<input name="reason" maxlength="200" autocomplete="off" ?disabled=${self.busy}
                @input=${(event) => {
                  state.reason = event.target.value
                }}>`,
              t('free.reasonHint'),
            )
          : nothing
      }
      <div role="alert">${state.complaint ? bad(t('free.reasonMissing')) : nothing}${failure ? bad(errorLines(failure)) : nothing}</div>
      <div class="buttons">
        ${button(t('dialog.back'), self.busy, () => self.close())}
        ${failure || (answer && !canAct) ? button(t('free.again'), self.busy, () => void send(true)) : nothing}
        ${
          canAct
            ? html`<button type="submit" class="button danger" ?disabled=${self.busy}>${t(self.busy ? 'dialog.busy' : 'free.confirm')}</button>`
            : nothing
        }
      </div>
    </form>`
  }
}

function button(text, isOff, onClick) {
  return html`<button type="button" class="button" ?disabled=${isOff} @click=${onClick}>${text}</button>`
}

function result({ verdict, orders }) {
  return html`${note(tones[verdict], html`<p class="strong">${word('verdict', verdict)}</p>`)}
    ${orders.length > 0 ? html`<ul class="plain-list held">${orders.map(heldOrder)}</ul>` : nothing}`
}

function heldOrder(order) {
  const { status, action, done, age_seconds: seconds } = order
  return html`<li>
    <p>${name(order.external_reference, { class: 'strong' })} · ${money(order.amount)} · ${name(order.caja_id)} ${badge(orderTone(status), word('status', status))}</p>
    <p class="small">${t('free.since', { time: duration(seconds * 1000) })} · ${done ? t('free.done') : word('freeing', action)}</p>
  </li>`
}
