/** What is not seen first: comes as a part of its own, once the first view is there. */
import { createActivity as activity } from './views/activity.js'
import { createDestinations as destinations } from './views/destinations.js'
import { createErrors as errors } from './views/errors.js'
import { createItem as item } from './views/item.js'
import { createWorkbench as workbench } from './views/workbench.js'

export const laterViews = { activity, destinations, errors, item, workbench }
