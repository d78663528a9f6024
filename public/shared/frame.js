import { problemBox } from './errors.js'
import { language, t } from './i18n.js'
import { brandMark, icon } from './icons.js'
import { languageButton } from './language-button.js'
import { content, html, nothing, repeat } from './lit.js'
import { note } from './parts.js'
import { addressOf } from './place.js'

/**
 * Everything around a view, on both pages: head, ways to the other views, and the view's own title and body.
 *
 * `home` is where the name leads, `beside` what stands there, `banner` what stands above all, `who` whose data is shown,
 * `lamp` `{state, text}`, `ways` `{href, name, isCurrent, extra}`, `other` `{href, text}` of the other page, `signOut` what
 * ends the session, if there is one, `signIn` what begins one where none is asked for. `problem` is why the view could not be read, and `start` leads to it without what was
 * refused, `aside` what holds for all that is shown. `place` names the view: another one gets elements of its own.
 */
export function frame(app, shown) {
  const { home, beside, banner, who, lamp, ways, other, signIn, signOut, onLanguage } = shown
  const { view, problem, start, place, aside } = shown
  return html`<a class="skip" href="#content" @click=${skip}>${t('skip')}</a>
    ${banner ?? nothing}
    <div class="frame">
      <header class="head">
        <a class="brand" href=${home}>${brandMark()}tillbridge${beside ?? nothing}</a>
        <div class="who">
          ${who ?? nothing}
          <span class="lamp ${lamp.state}">${lamp.text}</span>
          <span class="head-buttons">
            ${other ? html`<a class="button quiet" href=${other.href}>${other.text}</a>` : nothing}
            ${languageButton(onLanguage)}
            ${
              signIn
                ? html`<button type="button" class="button quiet" @click=${signIn}>${t('signIn.submit')}</button>`
                : nothing
            }
            ${
              signOut
                ? html`<button type="button" class="button quiet" @click=${signOut}>${icon('leave')}${t('signOut')}</button>`
                : nothing
            }
          </span>
        </div>
      </header>
      <nav class="ways" aria-label=${t('nav.label')}>${ways.map(way)}</nav>
      <main id="content" tabindex="-1">
        <div role="status">${app.isLost ? note('bad', html`<p class="strong">${t('lost')}</p>`) : nothing}</div>
        ${problem ? problemBox(problem, start) : nothing}
        ${content(view.head?.())}
        <div class="title">
          <h1 id="title" tabindex="-1">${content(view.heading?.() ?? view.title())}</h1>
          ${content(view.actions?.())}
        </div>
        ${aside ?? nothing}
        ${repeat(
          [place],
          (one) => one,
          () => html`<div class="view">${content(view.body())}</div>`,
        )}
        <p class="soft small"><a href=${addressOf(`/guide/view/${language()}/${app.name}`).href}>${t('guide')}</a></p>
      </main>
    </div>`
}

function way({ href, name, isCurrent, extra }) {
  return html`<a href=${href} aria-current=${isCurrent ? 'page' : nothing}>${icon(name)}<span>${t(`nav.${name}`)}</span>${extra ?? nothing}</a>`
}

/** The hash is the address of the view, so the link must not change it. */
function skip(event) {
  event.preventDefault()
  document.getElementById('content').focus()
}
