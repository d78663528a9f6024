import {
  Directive as BaseDirective,
  directive as makeDirective,
} from '../vendor/lit-html/directive.js'
import { guard as guardValue } from '../vendor/lit-html/directives/guard.js'
import { live as liveValue } from '../vendor/lit-html/directives/live.js'
import { repeat as repeatKeyed } from '../vendor/lit-html/directives/repeat.js'
import {
  nothing as emptyPart,
  html as htmlTemplate,
  render as renderInto,
  noChange as sameAsBefore,
  svg as svgTemplate,
} from '../vendor/lit-html/lit-html.js'

/** The library of templates, as far as the pages use it. Text in a template is always text: markup cannot be passed. */
export const html = htmlTemplate
export const svg = svgTemplate
export const render = renderInto
/** In an attribute: leaves it out. */
export const nothing = emptyPart
/** `repeat(items, keyOf, template)`: nodes move with their items. */
export const repeat = repeatKeyed
/** `guard(causes, template)`: left as it is while none of the causes has changed. */
export const guard = guardValue
/** For `.value` and `.checked`: compares with what the page holds, which people change by typing. */
export const live = liveValue

/**
 * Whatever a caller hands to a shared part, as a value for a template: texts, templates, and lists of them. What is null,
 * undefined or false is left out.
 */
export function content(children) {
  return [children]
    .flat(Number.POSITIVE_INFINITY)
    .map((child) => (child === false ? emptyPart : child))
}

/** `<div ${draw(paint)}></div>`: what is in the element is left to `paint(element)`, called after each rendering. */
export const draw = makeDirective(
  class extends BaseDirective {
    render() {
      return sameAsBefore
    }

    // A drawing needs its room: a new element gets it only once the page holds it.
    update({ element }, [paint]) {
      requestAnimationFrame(() => paint(element))
      return sameAsBefore
    }
  },
)
