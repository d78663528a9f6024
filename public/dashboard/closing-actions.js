import { ask } from '../shared/dialog.js'
import { calendarDay, clock } from '../shared/format.js'
import { t, word } from '../shared/i18n.js'
import { html, live } from '../shared/lit.js'
import { toast } from '../shared/notices.js'
import { facts } from '../shared/parts.js'
import { amountExample, money, zeroExample } from './amounts.js'
import { inDoubt } from './in-doubt.js'
import { centsOfTyped, commaOfCents } from './money.js'
import './closings-page-texts.js'

/** What is counted at a till at the end of a day; of more than these the closing tells. */
const commonMedia = ['credit_card', 'debit_card', 'prepaid_card', 'qr']

/** Asks what was counted by means of payment, and closes what is left of the day of a box or a store. */
export function askClose(app, { cajaId, sucursalId, day }) {
  const place = cajaId === undefined ? { sucursal_id: sucursalId } : { caja_id: cajaId }
  askCount(app, {
    title: t('count.title', { place: cajaId ?? sucursalId }),
    post: (body) =>
      app.api.post('/closings', {
        query: app.clientQuery(),
        body: {
          ...place,
          business_day: day,
          ...body,
        },
      }),
  })
}

/** Asks again what was counted for a closing that is not signed. */
export function askCountAgain(app, { id, caja_id: box, sucursal_id: store, totals }) {
  askCount(app, {
    title: t('count.title', { place: box ?? store }),
    media: totals?.media.map(({ medium }) => medium),
    post: (body) => app.api.post(`/closings/${id}/count`, { query: app.clientQuery(), body }),
  })
}

/** What the service has is not shown before, so that it is counted and not copied. */
function askCount(app, { title, media = [], post }) {
  const names = [...new Set([...commonMedia, ...media])]
  const typed = {}
  ask({
    title,
    content: (_form, dialog) => html`
      <p>${t('count.text')}</p>
      <div class="counts">
        ${names.map(
          (medium) => html`<label class="field">
            <span class="label">${word('method', medium)}</span>
            <input
              name=${medium}
              inputmode="decimal"
              autocomplete="off"
              placeholder=${zeroExample()}
              .value=${live(typed[medium] ?? '')}
              ?disabled=${dialog.busy}
              @input=${(event) => {
                typed[medium] = event.target.value
              }}
            />
          </label>`,
        )}
      </div>
      <p class="soft small">${t('count.hint', { example: amountExample() })}</p>
    `,
    confirm: t('count.confirm'),
    check: () => {
      const wrong = names.find((medium) => countedOf(typed, medium) === undefined)
      return wrong && t('count.wrong', { medium: word('method', wrong), example: amountExample() })
    },
    async run() {
      const declared = Object.fromEntries(
        names.flatMap((medium) => {
          const counted = countedOf(typed, medium)
          return counted ? [[medium, counted]] : []
        }),
      )
      const isCounted = Object.keys(declared).length > 0
      const closing = await post(isCounted ? { declared } : {}).catch((error) => {
        throw withSpanHelp(app, error)
      })
      if (closing.uncovered) toast(t('count.gap', spanOf(closing.uncovered)))
      const there = app.link('closings', closing.id)
      if (location.hash === there) app.reload()
      else location.hash = there
    },
  })
}

/** Adds to a refusal which closing is in the way, or which day must be closed first. */
function withSpanHelp(app, error) {
  const { closing, uncovered, next_from: next } = error.body ?? {}
  if (error.code === 'CLOSING_GAP') {
    const day = uncovered.business_day
    error.help = html`${t('count.gap', spanOf(uncovered))}
      <a href=${app.link('closings', undefined, { day })}
        >${t('count.gapDay', { day: calendarDay(day) })}</a
      >`
  } else if (error.code === 'CLOSING_OVERLAPS') {
    const { number } = closing
    error.help = t('count.overlaps', { number, ...spanOf(closing), next: clock(next) })
  }
  return error
}

function spanOf({ from, to }) {
  return { from: clock(from), to: clock(to) }
}

/** What was counted, as the API takes it; '' where nothing was typed, undefined for what is no amount. */
function countedOf(typed, medium) {
  const text = typed[medium]?.trim() ?? ''
  const cents = /^0+(?:[.,]0{1,2})?$/.test(text) ? 0 : centsOfTyped(text)
  return text === '' ? '' : cents === undefined ? undefined : commaOfCents(cents)
}

/** Asks before a closing is signed, with what is signed. */
export function askSign(app, closing) {
  const { number, state, totals, lines } = closing
  ask({
    title: t('sign.title', { number }),
    content: () => [
      html`<p>${t(`sign.${state}`, {
        count: lines.filter(({ kind }) => kind !== 'dismissed').length,
      })}</p>`,
      facts([
        [t('closings.place'), closing.caja_id ?? closing.sucursal_id],
        [t('closings.day'), calendarDay(closing.business_day)],
        [t('closings.span'), t('closings.fromTo', spanOf(closing))],
        [t('closings.here'), totals && money(totals.here.amount)],
        [t('closings.there'), totals && money(totals.there.amount)],
      ]),
      html`<p class="soft small">${t('sign.forGood')}</p>`,
    ],
    confirm: t('sign.confirm'),
    async run() {
      await act(app, `/closings/${closing.id}/sign`)
      toast(t('sign.done', { number }))
      app.reload()
    },
  })
}

/** Asks why something is added to a signed closing, and adds it. */
export function askAmend(app, closing) {
  askReason({
    title: t('amend.title', { number: closing.number }),
    text: t('amend.text'),
    confirm: t('amend.confirm'),
    async run({ reason }) {
      await act(app, `/closings/${closing.id}/amendments`, { reason })
      toast(t('amend.done'))
      app.reload()
    },
  })
}

/** Takes an orphan in as an order, under the ticket that it was sold with. */
export function askAdopt(app, orphan) {
  askReason({
    title: t('adopt.title'),
    text: t('adopt.text'),
    about: aboutOrphan(orphan),
    extra: {
      name: 'reference',
      label: t('adopt.reference'),
      hint: t('adopt.referenceHint'),
      most: 64,
    },
    confirm: t('adopt.confirm'),
    run: ({ reason, reference }) =>
      settle(app, orphan, 'adopt', {
        reason,
        ...(reference && { external_reference: reference }),
      }),
  })
}

export function askOrphanRefund(app, orphan) {
  askReason({
    title: t('orphanRefund.title'),
    text: t('orphanRefund.text'),
    about: aboutOrphan(orphan),
    confirm: t('orphanRefund.confirm', { amount: money(orphan.amount) }),
    danger: true,
    // The service makes one refund of an orphan under one key, however often it is asked for.
    run: ({ reason }) => settle(app, orphan, 'refund', { reason }),
  })
}

export function askDismiss(app, orphan) {
  askReason({
    title: t('dismiss.title'),
    text: t('dismiss.text'),
    about: aboutOrphan(orphan),
    confirm: t('dismiss.confirm'),
    run: ({ reason }) => settle(app, orphan, 'dismiss', { reason }),
  })
}

async function settle(app, orphan, verb, body) {
  const { outcome } = await act(app, `/orphans/${orphan.id}/${verb}`, body)
  const refunded = outcome === 'unknown' ? 'orphanRefund.underWay' : 'orphanRefund.done'
  toast(t(verb === 'refund' ? refunded : `${verb}.done`))
  app.reload()
}

async function act(app, path, body) {
  try {
    return await app.api.post(path, { query: app.clientQuery(), ...(body && { body }) })
  } catch (error) {
    throw inDoubt(error)
  }
}

function aboutOrphan({ amount, caja_id: box, payment_id: payment }) {
  return facts([
    [t('order.amount'), money(amount)],
    [t('order.box'), box],
    [t('orphans.payment'), payment],
  ])
}

/** A question that is answered with a reason, which the audit log keeps, and perhaps one thing more. */
function askReason({ title, text, about, extra, confirm, danger, run }) {
  const typed = {}
  const input = ({ name, label, hint, most }, dialog) => html`<label class="field">
    <span class="label">${label}</span>
    <input
      name=${name}
      maxlength=${most}
      autocomplete="off"
      .value=${live(typed[name] ?? '')}
      ?disabled=${dialog.busy}
      @input=${(event) => {
        typed[name] = event.target.value
      }}
    />
    <span class="soft small">${hint}</span>
  </label>`
  const reason = { name: 'reason', label: t('reason.label'), hint: t('reason.hint'), most: 500 }
  const given = () =>
    Object.fromEntries(Object.entries(typed).map(([name, value]) => [name, value.trim()]))
  ask({
    title,
    content: (_form, dialog) => [
      html`<p>${text}</p>`,
      about,
      extra && input(extra, dialog),
      input(reason, dialog),
    ],
    confirm,
    danger,
    check: () => (given().reason ? undefined : t('reason.missing')),
    run: () => run(given()),
  })
}
