"""Webhook bodies of our own making, a module a provider and a function a body: what load and tests post.

Names, cards and places are invented; shapes and sizes are the providers'. Nothing is signed here.
"""

from load.samples import adyenplatform, braintree, checkout, gocardless, mollie, paddle, paypal, razorpay, square

__all__ = ["adyenplatform", "braintree", "checkout", "gocardless", "mollie", "paddle", "paypal", "razorpay", "square"]
