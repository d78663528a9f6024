import { calendarDay, clock, code, number, time } from '../../shared/format.js'
import { count, language, t, word } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { empty, facts, note, table } from '../../shared/parts.js'
import { addressOf } from '../../shared/place.js'
import { money } from '../amounts.js'
import { boxLink } from '../box-link.js'
import { askAmend, askCountAgain, askSign } from '../closing-actions.js'
import { chooseClient } from './choose-client.js'
import { differenceList, isDifference } from './closing-lines.js'
import { closingBadges } from './closing-state.js'

/** Whoever waits for a result looks at this page. */
const lookAgainMs = 3000

/** One closing as a person reads it: what differs, what both sides have, and the way from counting to signing. */
export function createClosing(app) {
  const { id } = app
  let shown
  let timer

  const lookAgain = () => {
    clearTimeout(timer)
    timer = setTimeout(() => app.name === 'closings' && app.id === id && app.reload(), lookAgainMs)
  }

  return {
    isOfOne: true,
    title: () =>
      shown
        ? t('closing.title', { number: shown.number, place: placeOf(shown) })
        : t('closing.one'),
    async load(signal) {
      if (app.client === undefined) return
      shown = await app.api.get(`/closings/${id}`, app.clientQuery(), signal)
      if (isUnderWay(shown)) lookAgain()
    },
    head: () =>
      html`<a class="back" href=${app.link('closings', undefined, dayQuery(shown))}
        >${t('closing.back')}</a
      >`,
    actions: () => shown && html`<div class="buttons">${papers(app, shown)}</div>`,
    body() {
      if (app.client === undefined) return chooseClient(app)
      if (!shown) return app.placeholder()
      return [
        html`<p>${closingBadges(shown)} ${shown.caja_id ? html`${boxLink(app, shown)} · ` : null}<span class="soft">${spanOf(shown)}</span></p>`,
        steps(app, shown),
        verdict(shown),
        shown.lines.length > 0 ? differences(app, shown.lines) : null,
        shown.totals ? totals(shown) : null,
        shown.state === 'signed' ? amendments(app, shown) : null,
      ]
    },
  }
}

function dayQuery(closing) {
  return { day: closing?.business_day }
}

function placeOf({ caja_id: box, sucursal_id: store }) {
  return box ?? store
}

function isUnderWay({ state }) {
  return state === 'open' || state === 'checking'
}

function spanOf({ business_day: day, from, to }) {
  return t('closing.span', { day: calendarDay(day), from: clock(from), to: clock(to) })
}

function papers(app, { id }) {
  const query = new URLSearchParams({ ...app.clientQuery(), language: language() })
  const of = (paper) => addressOf(`/closings/${id}/${paper}?${query}`)
  return html`<a class="button" href=${of('csv')} download>${t('closing.csv')}</a>
    <a class="button" href=${of('print')} target="_blank" rel="noopener">${t('closing.print')}</a>`
}

/** Count, compare, sign: what is done, what is next, and who does it. */
function steps(app, closing) {
  const { state, totals: sums, signed_at: signedAt } = closing
  const isSigned = state === 'signed'
  const isCompared = !isUnderWay(closing)
  const mayAct = isCompared && !isSigned && app.may('close_days')
  const wasCounted = sums?.media.some(({ declared }) => declared !== null) ?? false
  const list = [
    {
      name: 'count',
      isDone: wasCounted,
      // It was compared without: nobody has to count any more, and nobody has.
      isLeftOut: isCompared && !wasCounted,
      text: !isCompared || wasCounted ? t('step.countText') : t('step.notCounted'),
      action: mayAct
        ? html`<button type="button" class="button small" @click=${() => askCountAgain(app, closing)}>
              ${t('step.countAgain')}
            </button>`
        : null,
    },
    { name: 'compare', isDone: isCompared, text: comparedText(closing) },
    {
      name: 'sign',
      isDone: isSigned,
      text: isSigned ? t('step.signed', { time: clock(signedAt) }) : t('step.signText'),
      action: mayAct
        ? html`<button type="button" class="button main" @click=${() => askSign(app, closing)}>
              ${t('step.sign')}
            </button>`
        : null,
    },
  ]
  const next = list.findIndex(({ isDone, isLeftOut }) => !isDone && !isLeftOut)
  return html`<ol class="way" aria-label=${t('closing.steps')}>
    ${list.map(
      ({ name, isDone, text, action }, index) => html`<li
        class=${isDone ? 'done' : index === next ? 'next' : ''}
        aria-current=${index === next ? 'step' : 'false'}
      >
        <h2>${t(`step.${name}`)}</h2>
        <p class="soft small">${text}</p>
        ${action ?? null}
      </li>`,
    )}
  </ol>`
}

function comparedText({ state, next_check_at: next, read_at: readAt }) {
  if (state === 'open' && next !== null) return t('step.waits', { time: clock(next) })
  if (state === 'checking') return t('step.compares')
  return readAt === null ? t('step.notRead') : t('step.compared', { time: clock(readAt) })
}

/** The one sentence that whoever closes wants to read. */
function verdict({ state, result, reason, totals: sums, lines }) {
  const end = result ?? state
  if (end === 'agreed') {
    const amount = money(sums.there.amount)
    return note('good', html`<p class="strong">${t('verdict.agreed', { amount })}</p>`)
  }
  if (end === 'unverified') {
    return note(
      'warn',
      html`<p class="strong">${t('verdict.unverified')}</p>
        ${reason ? html`<p>${word('closingReason', reason)}</p>` : null}`,
    )
  }
  if (end !== 'differs') return null
  const wrong = lines.filter((line) => isDifference(line) && line.counted === null).length
  const told = state === 'signed' ? 'verdict.signedDiffers' : 'verdict.differs'
  const text = wrong === 0 ? t('verdict.countedOtherwise') : count(told, wrong)
  return note('bad', html`<p class="strong">${text}</p>`)
}

function differences(app, lines) {
  return html`<section class="panel">
    <h2>${t('closing.differences')}</h2>
    ${differenceList(app, lines)}
  </section>`
}

function totals({ totals: sums, ...closing }) {
  const { here, there, media, installments, refunds, net } = sums
  const wasCounted = media.some(({ declared }) => declared !== null)
  const side = (title, { count: charges, amount, refunded }) => html`<div class="side">
    <h3>${title}</h3>
    <p class="value">${money(amount)}</p>
    <p class="soft small">${count('closing.charges', charges)}</p>
    ${
      Number(refunded) > 0
        ? html`<p class="soft small">${t('overview.refunded', { amount: money(refunded) })}</p>`
        : null
    }
  </div>`
  return html`<section class="panel">
    <h2>${t('closing.totals')}</h2>
    <div class="sides">${side(t('closings.here'), here)} ${side(t('closings.there'), there)}</div>
    ${media.length === 0 ? empty(t('closing.nothing')) : mediaTable(media, wasCounted)}
    ${facts([
      [t('closing.refunds'), refunds.count > 0 ? money(refunds.amount) : null],
      [t('closing.net'), net === null ? null : money(net)],
      [
        t('closing.installments'),
        installments.some(({ installments: plan }) => plan > 1)
          ? installments.map(
              ({ installments: plan, amount }) =>
                html`<span class="plan">${number(plan)} × ${money(amount)}</span> `,
            )
          : null,
      ],
      [t('closing.readAt'), closing.read_at === null ? null : time(closing.read_at)],
      [t('closing.zone'), closing.time_zone],
      [t('closing.id'), code(closing.id)],
    ])}
  </section>`
}

function mediaTable(media, wasCounted) {
  const sum = ({ amount }) => money(amount)
  return table({
    label: t('closing.media'),
    columns: [
      { id: 'medium', title: t('order.method'), cell: ({ medium }) => word('method', medium) },
      { id: 'here', title: t('closings.here'), numeric: true, cell: ({ here }) => sum(here) },
      { id: 'there', title: t('closings.there'), numeric: true, cell: ({ there }) => sum(there) },
      ...(wasCounted
        ? [
            {
              id: 'counted',
              title: t('closing.counted'),
              numeric: true,
              cell: ({ declared }) => (declared === null ? '—' : money(declared)),
            },
            { id: 'difference', title: t('closing.difference'), numeric: true, cell: difference },
          ]
        : []),
    ],
    rows: media,
    keyOf: ({ medium }) => medium,
  })
}

function difference({ difference: amount }) {
  if (amount === null) return '—'
  if (Number(amount) === 0) return money(amount)
  return html`<strong class="off-by bad">${money(amount)}</strong>`
}

/** What was added since it was signed: the closing itself stays as it was. */
function amendments(app, closing) {
  const { amendments: list } = closing
  return html`<section class="panel">
    <div class="panel-head">
      <h2>${t('amend.list')}</h2>
      ${
        app.may('close_days')
          ? html`<button type="button" class="button small" @click=${() => askAmend(app, closing)}>
              ${t('amend.button')}
            </button>`
          : null
      }
    </div>
    ${list.length === 0 ? html`<p class="soft">${t('amend.none')}</p>` : null}
    ${list.map(
      ({ number: which, reason, result, created_at: at, lines }) => html`<article class="amendment">
        <h3>${t('amend.one', { number: which })} ${closingBadges({ state: result, result: null })}</h3>
        <p><bdi>${reason}</bdi> <span class="soft small">${time(at)}</span></p>
        ${lines.length === 0 ? html`<p class="soft">${t('amend.agrees')}</p>` : differenceList(app, lines)}
      </article>`,
    )}
  </section>`
}
