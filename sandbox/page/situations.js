import { make } from './device.js'
import { language, say, switchLanguage, translatePage } from './texts.js'

const pollMs = 1000
const byId = (id) => document.getElementById(id)
let situations = []
let rules = []

async function ask(method, path) {
  const response = await fetch(path, { method })
  const answer = await response.json()
  if (!response.ok) throw new Error(answer.error ?? String(response.status))
  return answer
}

/** Sends a change, or reads the rules in force again. */
async function change(method, path) {
  try {
    const answer = await ask(method, path)
    rules = answer.rules
    byId('notice').hidden = true
  } catch (error) {
    byId('notice').textContent = error.message
    byId('notice').hidden = false
  }
  showRules()
}

/** The situation that a rule belongs to; one that was made by hand has its kind. */
function titleOf({ kind, path }) {
  const situation = situations.find(({ rule }) => rule.kind === kind && rule.path === path)
  return situation?.title[language()] ?? `${kind} ${path}`
}

function showRules() {
  const open = rules.filter(({ count, fired }) => count === null || fired < count)
  byId('end').hidden = open.length === 0
  const lines = open.map((rule) => {
    return make('li', '', titleOf(rule), ' · ', say('done', { count: rule.fired }))
  })
  byId('rules').replaceChildren(
    ...(lines.length > 0 ? lines : [make('li', '', say('noneInForce'))]),
  )
}

function showSituations() {
  byId('situations').replaceChildren(
    ...situations.map(({ id, title, request, answer, outcome, till }) => {
      const begin = make('button', 'strong', say('begin'))
      begin.type = 'button'
      begin.setAttribute('aria-label', `${say('begin')}: ${title[language()]}`)
      begin.addEventListener('click', () => void change('POST', `/_sandbox/situations/${id}`))
      const line = (key, text) => make('p', '', make('strong', '', `${say(key)}: `), text)
      return make(
        'li',
        'panel',
        make('h2', '', title[language()]),
        make('p', '', make('code', '', request)),
        line('answers', `${answer}, outcome ${outcome}`),
        line('thenTill', till[language()]),
        begin,
      )
    }),
  )
}

function translate() {
  translatePage()
  byId('language').textContent = say('other')
  byId('language').lang = say('other') === 'English' ? 'en' : 'es'
  showSituations()
  showRules()
}

byId('language').addEventListener('click', () => {
  switchLanguage()
  translate()
})
byId('end').addEventListener('click', () => void change('DELETE', '/_sandbox/faults'))

situations = (await ask('GET', '/_sandbox/situations')).situations
translate()
for (;;) {
  await change('GET', '/_sandbox/faults')
  await new Promise((resolve) => setTimeout(resolve, pollMs))
}
