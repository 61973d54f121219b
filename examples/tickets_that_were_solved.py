"""
Find the solved ticket that helps
=================================

You learn how to search earlier support tickets with a similarity that knows your
queues. People describe one problem in many words: *charged twice*, *duplicate payment*,
*paid two times*. The queue that solved a ticket says which of these words belong
together.

The tickets are written for this example. With a few hundred of your own, read them from
a table: ``hdsl fit tickets.csv --text body --label queue``.
"""

# %%
# Eighty solved tickets
# ---------------------
# One ticket per line, in four queues.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from hdsl import HDSL
from hdsl.plots import NeighborsDisplay
from hdsl.search import top_k

SOLVED = {
    "billing": """
        I was charged twice for the March invoice
        duplicate payment on my credit card, please refund one
        the invoice shows the wrong VAT number
        please send the receipt for my last payment
        the refund for the cancelled plan has not arrived
        my card was declined although the bank says it is fine
        the invoice has the old company address
        I was billed for a plan that I cancelled in May
        can I pay by bank transfer instead of card
        the yearly discount is missing on the invoice
        why is the amount higher than last month
        the payment failed and now the account is locked
        need a copy of all invoices for our tax office
        the credit card on file has expired, how do I change it
        charged in dollars although we pay in euro
        two payments were taken on the same day
        the refund is lower than the amount I paid
        please change the billing contact on the invoice
        the bank says the direct debit was returned
        VAT was charged although we gave a VAT number""",
    "login": """
        I forgot my password and the reset mail never arrives
        the reset link says it has expired
        two factor code is rejected every time
        I lost the phone with the authenticator app
        account locked after three wrong passwords
        single sign on sends me back to the sign in page
        cannot sign in since the password was changed
        the verification code arrives after it has expired
        my user name is not recognised
        the sign in page shows an empty screen
        how do I remove an old device from my account
        new employee cannot log in with the invitation link
        the invitation mail was never delivered
        session ends after a minute and I must log in again
        please unlock the account of a colleague
        I get a code by text message but the page wants the app
        change of mail address, now I cannot log in
        the password rules are refused although I follow them
        the browser keeps filling in the old password
        sign in works on the phone but not on the laptop""",
    "shipping": """
        the parcel has not arrived after two weeks
        tracking says delivered but nothing is here
        the box was damaged and one item is broken
        wrong item in the parcel, I ordered the blue one
        please change the delivery address of my order
        the courier left the parcel at a neighbour
        half of the order is missing
        can the delivery come on Saturday
        the tracking number does not work
        the parcel is held at customs, what is needed
        I want to return an item, where is the label
        the return was sent back three weeks ago, no news
        the order was cancelled without a message
        delivery date has moved for the third time
        the courier says the address is incomplete
        item arrived with a broken screen
        no one rang, the card says nobody was at home
        please combine two orders in one parcel
        the pallet was refused at our warehouse
        the package was opened on the way""",
    "bugs": """
        the app crashes when I open the settings
        export to CSV stops at one thousand rows
        the chart shows no data since the update
        search does not find documents from last year
        upload hangs at ninety nine percent
        the page is very slow with many filters
        an error message appears after every save
        the mobile app closes by itself
        dates are shown one day too early
        the report has wrong totals in the last column
        the update broke the import of Excel files
        buttons are missing in the dark theme
        notifications are sent twice
        the filter by owner returns nothing
        the dashboard freezes after ten minutes
        the API returns error 500 for large requests
        saving a draft deletes the attachments
        the table cannot be sorted by date any more
        printing the report cuts off the right side
        undo does not work in the editor""",
}
queues = np.repeat(list(SOLVED), 20)
tickets = [
    line.strip() for text in SOLVED.values() for line in text.strip().splitlines()
]
vectorizer = TfidfVectorizer(sublinear_tf=True)
X = vectorizer.fit_transform(tickets)
model = HDSL(random_state=0).fit(X, queues)
print(
    f"{len(tickets)} tickets, {X.shape[1]} words, {len(model.weights_)} pairs of words "
    "learned."
)

# %%
# New tickets
# -----------
# The share of the five nearest solved tickets that come from the right queue.

NEW = {
    "my card was debited two times for one invoice": "billing",
    "the receipt has the wrong amount of VAT": "billing",
    "I changed my phone and the code is not accepted": "login",
    "the link in the invitation has expired": "login",
    "the parcel was left at the wrong address": "shipping",
    "a broken item came back with the courier": "shipping",
    "the export crashes with many rows": "bugs",
    "after the update the page freezes when saving": "bugs",
}
asked = vectorizer.transform(list(NEW))
right = np.array(list(NEW.values()))
found = {
    "TF-IDF cosine": top_k(asked, X, 5).rows,
    "learned": top_k(model.rewrite(asked), X, 5).rows,
}
for name, rows in found.items():
    print(f"{name:15}{np.mean(queues[rows] == right[:, None]):6.0%}")

# %%
# The figure has the ticket that gains most. Lines join tickets that are in both lists.

gain = np.subtract(
    *(
        (queues[found[name]] == right[:, None]).sum(1)
        for name in ("learned", "TF-IDF cosine")
    )
)
best = int(np.argmax(gain))
NeighborsDisplay.from_estimator(
    model,
    asked[[best]],
    X,
    labels=queues,
    texts=tickets,
    query_label=right[best],
    query_text=list(NEW)[best],
    n_neighbors=5,
)

# %%
# Why a ticket was found: the words in common, and the pairs of words that were learned.

first = found["learned"][best, 0]
print(f"\n{list(NEW)[best]!r} found {tickets[first]!r}")
print(
    model.explain(
        asked[[best]],
        X[[first]],
        feature_names=vectorizer.get_feature_names_out(),
        top=6,
    )
)
plt.show()
